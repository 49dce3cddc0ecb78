package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/remote"
	"github.com/tenderhq/tender/api"
)

// TestOffers: an agent that the masters' half is told of comes back as an offer.
func TestOffers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served, ran := make(chan error, 1), make(chan struct{})
	go func() { served <- serve(ctx, listener) }()
	policy, err := remote.New(allocator.Config{Argument: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	total, err := api.ParseResources("cpus:4;mem:4096")
	if err != nil {
		t.Fatal(err)
	}
	policy.SetAgent(allocator.Agent{ID: "a1", Total: total, Offerable: true})
	policy.SetFramework(allocator.Framework{ID: "f1", Roles: []api.Role{"web"}, Active: true})
	news := make(chan struct{}, 1)
	go func() {
		defer close(ran)
		policy.Run(ctx, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}, func(_ bool, message, why string) { t.Log(message, why) })
	}()
	for {
		<-news
		if offers := policy.Allocate(time.Now()).Offers; len(offers) > 0 {
			if !offers[0].Resources.Equal(total) || offers[0].Framework != "f1" {
				t.Errorf("offers: %v", offers)
			}
			break
		}
	}
	cancel()
	<-ran
	if err := <-served; err != nil {
		t.Error(err)
	}
}

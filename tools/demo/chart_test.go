package main

import (
	"testing"
	"time"
)

func TestChart(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	c := chart{began: began}
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	for i := range 24 {
		one := sample{at: at(float64(i) / 2), jobs: 1}
		if i >= 8 && i < 18 {
			one.jobs, one.rdd = 0.5, 0.48
		}
		if i == 20 {
			continue // there is no sample
		}
		if i > 21 {
			one.jobs = 0
		}
		c.samples = append(c.samples, one)
	}
	c.marks = []mark{{at(4), "rdd comes"}, {at(9.2), "rdd goes"}, {at(99), "the end"}}
	const want = ` 100% |######################..
  90% |######################..
  80% |######################..
  70% |######################..
  60% |######################..
  50% |########rrrrrrrrrr####..
  40% |########rrrrrrrrrr####..
  30% |########rrrrrrrrrr####..
  20% |########rrrrrrrrrr####..
  10% |########rrrrrrrrrr####..
      +------------------------
       0s        5s        10s
               A         B    C
       r rdd, # jobs, . free
       A  4.0s rdd comes
       B  9.2s rdd goes
       C 99.0s the end
`
	if got := c.String(); got != want {
		t.Errorf("the chart is\n%s\nwanted\n%s", got, want)
	}
}

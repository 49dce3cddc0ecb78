package history

import (
	"math"
	"testing"
)

// TestJudge: answers that no store may give are refused, and uncertain ones are accepted.
func TestJudge(t *testing.T) {
	put := Op{Kind: Put, Key: "k", Value: "v", Version: Any}
	onlyNew := Op{Kind: Put, Key: "k", Value: "w"}
	get := Op{Kind: Get, Key: "k"}
	away := Op{Kind: Delete, Key: "k", Version: Any}
	unknown := Event{put, Got{Unknown: true}, 1, math.MaxInt64}
	tests := []struct {
		name   string
		events []Event
		want   bool
	}{
		{"nothing", nil, true},
		{"read your write", []Event{{put, Got{Version: 7}, 1, 2}, {get, Got{Version: 7, Value: "v"}, 3, 4}}, true},
		{"a stale read", []Event{{put, Got{Version: 7}, 1, 2}, {get, Got{}, 3, 4}}, false},
		{"at the same time", []Event{{put, Got{Version: 7}, 1, 4}, {get, Got{}, 2, 3}}, true},
		{"a lost condition", []Event{{put, Got{Version: 7}, 1, 2}, {onlyNew, Got{Version: 8}, 3, 4}}, false},
		{"a condition that holds", []Event{{put, Got{Version: 7}, 1, 2}, {onlyNew, Got{Stale: true}, 3, 4}}, true},
		{"a condition refused for nothing", []Event{{onlyNew, Got{Stale: true}, 3, 4}}, false},
		{"another version", []Event{{put, Got{Version: 7}, 1, 2}, {get, Got{Version: 8, Value: "v"}, 3, 4}}, false},
		{"a version that goes back", []Event{{put, Got{Version: 7}, 1, 2}, {put, Got{Version: 6}, 3, 4}}, false},
		{"deleted", []Event{{put, Got{Version: 7}, 1, 2}, {away, Got{}, 3, 4}, {get, Got{}, 5, 6}}, true},
		{"back from the dead", []Event{{put, Got{Version: 7}, 1, 2}, {away, Got{}, 3, 4}, {get, Got{Version: 7, Value: "v"}, 5, 6}}, false},
		{"an unknown write that happened", []Event{unknown, {get, Got{Version: 9, Value: "v"}, 3, 4}}, true},
		{"an unknown write that did not", []Event{unknown, {get, Got{}, 3, 4}}, true},
		{"an unknown write that happened too late", []Event{{put, Got{Unknown: true}, 1, 3}, {get, Got{}, 4, 5}, {get, Got{Version: 9, Value: "v"}, 6, 7}}, false},
		{"an unknown read", []Event{{get, Got{Unknown: true}, 1, 2}}, true},
		{"a value from nowhere", []Event{{get, Got{Version: 9, Value: "v"}, 3, 4}}, false},
		{"keys are apart", []Event{{put, Got{Version: 7}, 1, 2}, {Op{Kind: Get, Key: "l"}, Got{}, 3, 4}}, true},
	}
	for _, test := range tests {
		if err := Judge(test.events); (err == nil) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

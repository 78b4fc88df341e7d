package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kelson.dev/operator/store"
)

// backup is a task of an operator that has one machine for all backups.
type backup struct {
	Database string
	Due      time.Time
}

// A Heap orders work by something else than its arrival: here, the backup that is due first runs
// first, and a changed due time moves a backup that waits.
func ExampleHeap() {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	waiting := store.NewHeap(func(b backup) string { return b.Database },
		func(a, b backup) bool { return a.Due.Before(b.Due) })
	waiting.Put(backup{"orders", day.Add(2 * time.Hour)})
	waiting.Put(backup{"users", day.Add(time.Hour)})
	waiting.Put(backup{"orders", day}) // its schedule has changed
	for waiting.Len() > 0 {
		next, err := waiting.Pop(context.Background())
		fmt.Println(next.Database, err)
	}
	// Output:
	// orders <nil>
	// users <nil>
}

// Expiring remembers something for a while: here, a token of a cloud is requested again only when
// the last one has expired.
func ExampleExpiring() {
	type token struct{ Account, Text string }
	tokens := store.NewExpiring(func(t token) string { return t.Account },
		func(token) time.Duration { return time.Hour })
	requests := 0
	tokenOf := func(account string) string {
		if t, ok := tokens.Get(account); ok {
			return t.Text
		}
		requests++
		t := token{account, fmt.Sprintf("token %d of %s", requests, account)}
		tokens.Put(t)
		return t.Text
	}
	fmt.Println(tokenOf("ann"))
	fmt.Println(tokenOf("ann"))
	// Output:
	// token 1 of ann
	// token 1 of ann
}

// Undelta is for consumers that always need everything: here, a proxy's configuration has a line
// for each host and is written as a whole after each change.
func ExampleUndelta() {
	type host struct{ Name, Address string }
	proxy := store.NewUndelta(func(h host) string { return h.Name }, func(all []host) {
		slices.SortFunc(all, func(a, b host) int { return strings.Compare(a.Name, b.Name) })
		fmt.Println("write", all)
	})
	proxy.Replace([]host{{"a.example", "10.0.0.1"}, {"b.example", "10.0.0.2"}}, "")
	proxy.Update(host{"b.example", "10.0.0.3"})
	proxy.Delete(host{Name: "a.example"})
	// Output:
	// write [{a.example 10.0.0.1} {b.example 10.0.0.2}]
	// write [{a.example 10.0.0.1} {b.example 10.0.0.3}]
	// write [{b.example 10.0.0.3}]
}

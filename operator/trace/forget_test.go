package trace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Forget drops only the records about a cluster's objects.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		tracer := New(Config{Sink: Func(func(Record) {}), Loops: func(Loop) { reported++ }})
		key := client.Key{Namespace: "default", Name: "torn"}
		// The same field flaps in each of two clusters.
		flap := func(cluster string) {
			values := []string{`"a"`, `"b"`}
			for i := range 8 {
				ctx := reconcile.WithCluster(t.Context(), cluster)
				_, span := tracer.Start(ctx, Record{Controller: "c"})
				span.addWrite(Write{Verb: "update", Cluster: cluster, Kind: "ConfigMap", Key: key, Changed: true},
					time.Time{})
				span.End(reconcile.Result{}, nil)
				tracer.Changed(cluster, "ConfigMap", key, []string{"c", "other"}[i%2],
					[]Change{{Path: "data.x", Before: values[i%2], After: values[(i+1)%2]}})
				tracer.known.wrote(author{reconcile: span.record.ID}, subject{cluster, "ConfigMap", key}, []string{"1"},
					"2")
			}
		}
		by := func(cluster string) uint64 {
			causes := tracer.known.resolve(Because(Cause{Event: Update, Cluster: cluster, Kind: "ConfigMap", Key: key,
				ResourceVersion: "2"}), 1000)
			return causes.All()[0].By
		}
		flap("east")
		flap("west")
		if reported != 2 || by("east") == 0 || !tracer.Suspicious("east", "ConfigMap", key) {
			t.Fatalf("%d loops were reported, by %d", reported, by("east"))
		}
		tracer.Forget("east")
		tracer.Forget("east")
		if by("east") != 0 || tracer.Suspicious("east", "ConfigMap", key) {
			t.Error("records of east remain")
		}
		if by("west") == 0 || !tracer.Suspicious("west", "ConfigMap", key) {
			t.Error("records of west are gone")
		}
		time.Sleep(time.Second)
		flap("west")
		assert.Equalf(t, reported, 2, "the loop in west was reported twice within a minute")
		flap("east")
		assert.Equalf(t, reported, 3, "the loop of another cluster with that name was not reported")
		tracer.Forget("east")
		tracer.Forget("west")
		assert.Equalf(t, tracer.loops.suspects.Load(), 0, "suspects are left of none")
		(*Tracer)(nil).Forget("east")
	})
}

// Objects that were written often a while ago are dropped, and no longer count as suspicious.
func TestSuspicionEnds(t *testing.T) {
	l := &New(Config{Loops: func(Loop) {}}).loops
	write := func(name string, times int) {
		for range times {
			r := Record{ID: 1, Controller: "c", Time: time.Now()}
			r.Writes = []Write{{Kind: "ConfigMap", Key: client.Key{Namespace: "ns", Name: name}, Changed: true}}
			l.reconciled(r)
		}
	}
	write("busy", suspectWrites)
	require.Equalf(t, l.suspects.Load(), 1, "suspects")
	for n := range 3 * 4096 {
		write(fmt.Sprint("quiet-", n), 1)
	}
	assert.Equalf(t, l.suspects.Load(), 0, "suspects are left")
}

// An activity that ends and is evicted at the same time decrements the suspects once, not twice.
func TestSuspicionEndsOnce(t *testing.T) {
	l := &New(Config{Loops: func(Loop) {}}).loops
	at := time.Now()
	write := func(name string) {
		r := Record{ID: 1, Controller: "c", Time: at}
		r.Writes = []Write{{Kind: "ConfigMap", Key: client.Key{Namespace: "ns", Name: name}, Changed: true}}
		l.reconciled(r)
	}
	for range suspectWrites {
		write("busy")
	}
	for n := range 2*4096 - 1 { // both generations are full
		write(fmt.Sprint("quiet-", n))
	}
	at = at.Add(2 * loopWindow)
	write("busy")
	assert.Equalf(t, l.suspects.Load(), 0, "suspects are left")
}

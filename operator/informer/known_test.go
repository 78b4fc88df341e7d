package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// knowing also records the time since which each change could be read.
type knowing struct {
	*recorder
	begin time.Time
}

func (k *knowing) OnKnown(old, obj client.Object, since time.Time) {
	sign := "+"
	if old != nil {
		sign = "~"
	}
	k.add("%s%s since %v", sign, obj.GetName(), since.Sub(k.begin))
}

// A late handler gets the time since which a change can be read: for a write of this process, since
// the write returned; for others, since the informer has it. Initial objects, and changes that
// another copy of the kind may lack, have no time.
func TestKnownHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag, late = time.Second, time.Minute
		w := newFixture(t)
		w.create(pod("a"))
		w.server.SetFaults(apitest.Faults{WatchLag: lag})
		inf := w.pods()
		k := &knowing{recorder: &recorder{delay: late}}
		w.handle(inf, k)
		w.run()
		time.Sleep(10 * time.Minute)
		w.expectCalls(k.recorder, "+a initial")

		step := func(do func(), want string) {
			t.Helper()
			k.begin = time.Now()
			do()
			time.Sleep(10 * time.Minute)
			w.expectCalls(k.recorder, want)
		}
		b, c := pod("b"), pod("c")
		step(func() { w.must(w.client.Create(w.ctx, b)) }, "+b since 0s")
		step(func() { w.create(c) }, "+c since 1s")
		step(func() { w.must(w.client.Update(w.ctx, labelled(b, "2"))) }, "~b since 0s")
		step(func() { w.must(w.direct.Update(w.ctx, labelled(c, "2"))) }, "~c since 1s")
		step(func() { w.must(w.direct.Delete(w.ctx, c)) }, "-c")

		metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		other, err := w.set.For(metadata)
		w.must(err)
		<-other.Synced()
		step(func() { w.must(w.direct.Update(w.ctx, labelled(b, "3"))) }, "~b 3")
		step(func() { w.must(w.client.Update(w.ctx, labelled(b, "4"))) }, "~b since 0s")
	})
}

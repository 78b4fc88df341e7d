package stages

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/operator/client"
)

// kind moves the objects of one kind from state to state.
type kind struct {
	controller *Controller
	gvk        schema.GroupVersionKind
	life       context.Context
	end        context.CancelFunc

	mu       sync.Mutex
	resource string // its name in the store; "" until it is served
	jobs     map[store.Key]*job
}

// job is a Stage that applies to an object, now or after its delay.
type job struct {
	revision uint64
	timer    *time.Timer
}

func newKind(ctx context.Context, c *Controller, gvk schema.GroupVersionKind) *kind {
	k := &kind{controller: c, gvk: gvk, jobs: map[store.Key]*job{}}
	k.life, k.end = context.WithCancel(ctx)
	return k
}

// lookForKind is the interval at which run looks up a kind that is not served.
const lookForKind = 5 * time.Second

// run follows the objects of the kind until its Stages are deleted or the controller ends.
func (k *kind) run() {
	defer k.stopAll()
	for warned := false; ; warned = true {
		if res, ok := k.controller.cfg.Registry.Current().ByKind(k.gvk.GroupKind()); ok {
			k.mu.Lock()
			k.resource = res.Prefix()
			k.mu.Unlock()
			break
		}
		if !warned {
			k.controller.cfg.Log.Warn("Stages wait for a kind that is not served", "kind", k.gvk)
		}
		select {
		case <-k.life.Done():
			return
		case <-time.After(lookForKind):
		}
	}
	err := k.controller.cfg.Store.Follow(k.life, k.resource, func(sn *store.Snapshot) {
		for obj := range sn.Scan(k.resource, "", store.Key{}) {
			k.look(obj)
		}
	}, func(events []*store.Event) {
		for _, e := range events {
			if e.Type == store.Deleted {
				k.forget(e.Object)
			} else {
				k.look(e.Object)
			}
		}
	})
	if err != nil && k.life.Err() == nil {
		k.controller.cfg.Log.Warn("follow the objects of Stages", "kind", k.gvk, "error", err)
	}
}

func (k *kind) stopAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, j := range k.jobs {
		j.stop()
		delete(k.jobs, key)
	}
}

func (j *job) stop() {
	if j.timer != nil {
		j.timer.Stop()
	}
}

// recheck checks the selected objects again.
func (k *kind) recheck(selected func(*store.Object) bool) {
	k.mu.Lock()
	name := k.resource
	k.mu.Unlock()
	if name == "" {
		return // run looks at all objects when it begins
	}
	for obj := range k.controller.cfg.Store.Snapshot().Scan(name, "", store.Key{}) {
		if selected(obj) {
			k.cancel(obj.Key)
			k.look(obj)
		}
	}
}

// forget ends the work on a deleted object.
func (k *kind) forget(obj *store.Object) {
	k.cancel(obj.Key)
	if k.gvk == podKind {
		k.controller.freeAddress(obj.Head.UID)
	}
}

func (k *kind) cancel(key store.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if j := k.jobs[key]; j != nil {
		j.stop()
		delete(k.jobs, key)
	}
}

// manages reports whether Stages apply to an object.
func (k *kind) manages(obj *store.Object) bool {
	switch k.gvk {
	case nodeKind:
		return k.controller.nodes.Simulates(obj.Key.Name)
	case podKind:
		name := nodeOf(obj)
		return name != "" && k.controller.nodes.Simulates(name)
	}
	return true
}

// look finds the Stage that applies to a state of an object, and plans it. The plan replaces that
// for an earlier state.
func (k *kind) look(obj *store.Object) {
	k.mu.Lock()
	planned := k.jobs[obj.Key]
	k.mu.Unlock()
	if planned != nil && planned.revision >= obj.Revision {
		return
	}
	k.cancel(obj.Key)
	if !k.manages(obj) {
		return
	}
	o, err := k.object(obj)
	if err != nil {
		k.controller.cfg.Log.Warn("read the object of a Stage", "kind", k.gvk, "namespace", obj.Key.Namespace, "name",
			obj.Key.Name, "error", err)
		return
	}
	k.plan(obj.Key, obj.Revision, o)
}

// deletion completes the deletion of a pod, as a kubelet does, if Stages run the pod and none of
// them matches.
var deletion = func() *stage.Program {
	p, err := stage.Compile(&stage.Stage{ObjectMeta: metav1.ObjectMeta{Name: "deletion"}, Spec: stage.Spec{
		ResourceRef: stage.ResourceRef{Kind: podKind.Kind}, Steps: []stage.Step{{Delete: true}},
	}})
	if err != nil {
		panic(err)
	}
	return p
}()

// plan chooses a Stage for an object and starts its delay.
func (k *kind) plan(key store.Key, revision uint64, o *stage.Object) {
	c := k.controller
	p := c.lifecycle(k.gvk).Choose(k.life, o, c.cfg.Random)
	if p == nil && k.gvk == podKind && o.GetDeletionTimestamp() != nil && c.nodes.Scripted(key) {
		p = deletion
	}
	if p == nil || k.life.Err() != nil {
		return
	}
	delay := p.Delay(k.life, o, time.Now(), c.cfg.Random)
	j := &job{revision: revision}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.jobs[key] = j
	k.after(delay, func() { k.play(&attempt{job: j, key: key, program: p, object: o}) }, j)
}

// after calls work in its own goroutine after a delay, unless the job is stopped before. The
// caller holds mu.
func (k *kind) after(delay time.Duration, work func(), j *job) {
	if k.life.Err() != nil {
		return
	}
	// parts.Go can't race with parts.Wait: run is a goroutine of parts, and needs mu to end.
	start := func() {
		if k.life.Err() == nil {
			work()
		}
	}
	if delay <= 0 {
		k.controller.parts.Go(start)
		return
	}
	j.timer = time.AfterFunc(delay, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.life.Err() == nil {
			k.controller.parts.Go(start)
		}
	})
}

// take removes a job from the plan. It reports false if the job is no longer the newest of its
// object.
func (k *kind) take(key store.Key, j *job) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jobs[key] != j {
		return false
	}
	delete(k.jobs, key)
	return true
}

// object returns an object in the version that the Stages name.
func (k *kind) object(obj *store.Object) (*stage.Object, error) {
	apiVersion := k.gvk.GroupVersion().String()
	res, ok := k.controller.cfg.Registry.Current().ByKind(k.gvk.GroupKind())
	if !ok || res.StorageVersion == k.gvk.Version {
		return stage.NewObject(obj.Data, apiVersion, k.gvk.Kind)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk)
	if err := k.controller.client.Get(k.life, client.Key{Namespace: obj.Key.Namespace, Name: obj.Key.Name},
		u); err != nil {
		return nil, err
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return stage.NewObject(data, apiVersion, k.gvk.Kind)
}

package aggregator

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
)

// definitions is the Resource of CustomResourceDefinitions in [store.Key].
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// keeper keeps one local APIService for each group version of custom kinds. It has a goroutine only
// while there is something to write.
type keeper struct {
	*Aggregator
	ctx   context.Context
	tasks sync.WaitGroup

	mu       sync.Mutex
	begun    bool                             // the first state of the definitions is applied
	working  bool                             // a goroutine checks what is due
	versions map[string][]schema.GroupVersion // served versions, by name of the definition
	wanted   map[schema.GroupVersion]int      // number of definitions that serve it
	due      map[schema.GroupVersion]bool     // APIServices to check
}

func newKeeper(ctx context.Context, a *Aggregator) *keeper {
	return &keeper{Aggregator: a, ctx: ctx, versions: map[string][]schema.GroupVersion{},
		wanted: map[schema.GroupVersion]int{}, due: map[schema.GroupVersion]bool{}}
}

// run follows the definitions until ctx ends.
func (k *keeper) run() error {
	defer k.tasks.Wait()
	return k.cfg.Store.Follow(k.ctx, definitions, k.beginDefinitions, k.definitionEvents)
}

// seen checks an APIService that exists, was written, or was deleted.
func (k *keeper) seen(obj *store.Object, deleted bool) {
	if deleted || obj.Head.Labels[managedLabel] == always {
		k.add(versionOf(obj.Key.Name))
	}
}

func (k *keeper) beginDefinitions(sn *store.Snapshot) {
	stored := map[string]bool{}
	for obj := range sn.Scan(definitions, "", store.Key{}) {
		stored[obj.Key.Name] = true
		k.define(obj.Key.Name, servedVersions(obj))
	}
	k.mu.Lock()
	var gone []string
	for name := range k.versions {
		if !stored[name] {
			gone = append(gone, name)
		}
	}
	k.mu.Unlock()
	for _, name := range gone {
		k.define(name, nil)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = true
	k.start()
}

func (k *keeper) definitionEvents(events []*store.Event) {
	for _, e := range events {
		if e.Type == store.Deleted {
			k.define(e.Object.Key.Name, nil)
		} else {
			k.define(e.Object.Key.Name, servedVersions(e.Object))
		}
	}
}

// servedVersions returns the group versions that a stored definition serves.
func servedVersions(obj *store.Object) (out []schema.GroupVersion) {
	var definition struct {
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if json.Unmarshal(obj.Data, &definition) != nil {
		return nil // package crd reports it
	}
	for _, v := range definition.Spec.Versions {
		if v.Served {
			out = append(out, schema.GroupVersion{Group: definition.Spec.Group, Version: v.Name})
		}
	}
	return out
}

// define sets the group versions of a definition.
func (k *keeper) define(name string, now []schema.GroupVersion) {
	k.mu.Lock()
	was := k.versions[name]
	for _, gv := range was {
		if k.wanted[gv]--; k.wanted[gv] == 0 {
			delete(k.wanted, gv)
		}
	}
	for _, gv := range now {
		k.wanted[gv]++
	}
	if k.versions[name] = now; len(now) == 0 {
		delete(k.versions, name)
	}
	k.mu.Unlock()
	k.add(append(was[:len(was):len(was)], now...)...)
}

// add requests checks of the APIServices of group versions.
func (k *keeper) add(all ...schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, gv := range all {
		k.due[gv] = true
	}
	k.start()
}

// start starts work if there is any. The caller holds mu.
func (k *keeper) start() {
	if k.begun && !k.working && len(k.due) > 0 && k.ctx.Err() == nil {
		k.working = true
		k.tasks.Go(k.work)
	}
}

// retryAfter is how long to wait after a failed write.
const retryAfter = time.Second

// work checks APIServices until none is due or ctx ends.
func (k *keeper) work() {
	for {
		k.mu.Lock()
		due := k.due
		if k.due = map[schema.GroupVersion]bool{}; len(due) == 0 || k.ctx.Err() != nil {
			k.working = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		var failed []schema.GroupVersion
		for gv := range due {
			if err := k.keep(k.ctx, gv); err != nil && k.ctx.Err() == nil {
				k.cfg.Log.Warn("keep local APIService", "apiservice", nameOf(gv), "err", err)
				failed = append(failed, gv)
			}
		}
		if len(failed) == 0 {
			continue
		}
		timer := time.NewTimer(retryAfter)
		select {
		case <-timer.C:
		case <-k.ctx.Done():
			timer.Stop()
		}
		k.add(failed...)
	}
}

// keep creates, restores or deletes the APIService of a group version. It leaves alone those
// without the label.
func (k *keeper) keep(ctx context.Context, gv schema.GroupVersion) error {
	k.mu.Lock()
	wanted := k.wanted[gv] > 0
	k.mu.Unlock()
	obj := k.cfg.Store.Snapshot().Get(store.Key{Resource: Resource, Name: nameOf(gv)})
	switch {
	case obj == nil && wanted:
		return k.create(ctx, gv, always)
	case obj == nil || obj.Head.Labels[managedLabel] != always:
		return nil
	case !wanted:
		return k.delete(ctx, obj)
	}
	return k.restore(ctx, obj, k.localSpec(gv))
}

package builtin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

// TestManagerMatchesLibrary writes random objects of all built-in kinds as several field managers,
// with the fast path and with the library. Both must produce the same objects and the same
// managedFields.
func TestManagerMatchesLibrary(t *testing.T) {
	resources, err := builtin.Resources(builtin.Config{})
	require.NoError(t, err)
	rounds := 8
	for _, r := range resources {
		if r.Review != nil || r.Computed != nil {
			continue
		}
		for _, version := range r.Versions {
			kind := r.GVK(version.Name)
			t.Run(kind.GroupVersion().String()+" "+kind.Kind, func(t *testing.T) {
				n := rounds
				if kind.Group == "" || kind.Group == "apps" {
					n *= 4
				}
				c := &comparison{codec: r.Codec.(*builtin.Codec), kind: kind}
				synctest.Test(t, func(t *testing.T) { // for the fake clock
					c.T = t
					c.begin()
					for seed := range n {
						c.round(uint64(seed))
					}
				})
				t.Logf("fast path: of %d applies, %d created and %d updated an object; of %d creates, %d; of %d updates, %d; encoded: %d",
					c.applied, c.appliedNew, c.appliedMore, c.createdAll, c.created, c.updates, c.updatedFast,
					c.encoded)
				if c.appliedNew == 0 || c.created == 0 || c.updatedFast == 0 {
					t.Errorf("the fast path answered %d applies, %d creates and %d updates; want some of each",
						c.appliedNew, c.created, c.updatedFast)
				}
			})
		}
	}
}

// Updates of subresources have the owners that the library computes.
func TestManagerOfSubresourcesMatchesLibrary(t *testing.T) {
	resources, err := builtin.Resources(builtin.Config{})
	require.NoError(t, err)
	updates, fast := 0, 0
	for _, r := range resources {
		for _, sub := range r.Subresources {
			if r.Review != nil || r.Computed != nil || sub.Update == nil {
				continue
			}
			for _, version := range r.Versions {
				kind := r.GVK(version.Name)
				t.Run(kind.GroupVersion().String()+" "+kind.Kind+" "+sub.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						whole := &comparison{T: t, codec: r.Codec.(*builtin.Codec), kind: kind}
						whole.begin()
						c := &comparison{T: t, codec: whole.codec, kind: kind, sub: sub.Name}
						c.begin()
						for seed := range uint64(8) {
							random := &randomTree{Rand: rand.New(rand.NewPCG(seed, 8)), types: c.types, valid: true,
								nonEmpty: true}
							hub, _ := whole.apply(seed, whole.empty(),
								&unstructured.Unstructured{Object: random.object(t, kind)}, "op", true)
							for range 6 {
								if hub != nil {
									hub = c.updated(seed, random, hub)
								}
								time.Sleep(time.Duration(random.IntN(2)) * time.Second)
							}
						}
						updates, fast = updates+c.updates, fast+c.updatedFast
					})
				})
			}
		}
	}
	t.Logf("fast path: of %d updates, %d", updates, fast)
	if fast < updates/4 {
		t.Errorf("the fast path answered %d of %d updates", fast, updates)
	}
}

// comparison compares the manager of one kind with the library.
type comparison struct {
	*testing.T
	codec   *builtin.Codec
	types   upstream.TypeConverter
	kind    schema.GroupVersionKind
	sub     string // the subresource that is written
	manager *managedfields.StructManager
	library resource.FieldManager

	// Writes in all (applied, createdAll), and those that the fast path answered.
	applied, appliedNew, appliedMore, createdAll, created, updates, updatedFast, encoded int
	// asked is true if the manager called the library in the current write.
	asked bool
}

func (c *comparison) begin() {
	c.Helper()
	fieldManager, err := c.codec.FieldManager(c.kind.Version, c.sub)
	require.NoError(c, err)
	manager, ok := builtin.Unwrapped(fieldManager).(*managedfields.StructManager)
	if !ok {
		c.Skipf("a %T", fieldManager)
	}
	c.library, c.types = manager.Library, manager.Types
	config := manager.StructConfig
	config.Library = c
	c.manager, err = managedfields.NewStructManager(config)
	require.NoError(c, err)
}

// UpdateNoErrors and Apply forward to the library and set asked.
func (c *comparison) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	c.asked = true
	return c.library.UpdateNoErrors(live, next, by)
}

func (c *comparison) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	c.asked = true
	return c.library.Apply(live, config, by, force)
}

func (c *comparison) empty() runtime.Object {
	obj, err := builtin.Scheme().New(c.kind)
	require.NoError(c, err)
	obj.GetObjectKind().SetGroupVersionKind(c.kind)
	return obj
}

func (c *comparison) round(seed uint64) {
	random := &randomTree{Rand: rand.New(rand.NewPCG(seed, 7)), types: c.types}
	random.valid, random.nonEmpty = seed%4 != 0, seed%4 >= 2
	tree := random.object(c.T, c.kind)
	config := &unstructured.Unstructured{Object: tree}
	hub, ok := c.apply(seed, c.empty(), config.DeepCopy(), "op", true)
	if hub != nil {
		c.reapply(seed, random, hub, config)
	}
	if !ok {
		return
	}
	c.appliedNew++

	// The same object as a client creates it with POST.
	versioned := c.empty()
	var err error
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(config.DeepCopy().Object, versioned); err != nil {
		return
	}
	hub, err = c.codec.FromVersion(versioned)
	require.NoError(c, err)
	c.createdAll++
	want := c.library.UpdateNoErrors(c.empty(), hub.DeepCopyObject(), "hand")
	c.asked = false
	before := c.text(hub)
	got := c.manager.UpdateNoErrors(c.empty(), hub, "hand")
	if !c.asked {
		c.created++
	}
	require.Equalf(c, c.text(got), c.text(want), "seed %d: %s\nis created", seed, before)
	c.written(seed, got)
}

// written checks that Codec.Written encodes a hub to the same bytes as the object that is loaded
// from the store.
func (c *comparison) written(seed uint64, hub runtime.Object) {
	stored, err := c.codec.Store(hub)
	if err != nil {
		return
	}
	loaded, err := c.codec.Load(stored)
	require.NoError(c, err)
	want, err := c.codec.ToVersion(loaded, c.kind.Version)
	require.NoError(c, err)
	got, ok := c.codec.Written(hub, stored, c.kind.Version)
	if !ok {
		return
	}
	c.encoded++
	a, err := wire.Encode(resource.MediaProtobuf, want)
	require.NoError(c, err)
	b, err := wire.Encode(resource.MediaProtobuf, got)
	require.NoError(c, err)
	if !bytes.Equal(a, b) {
		c.Fatalf("seed %d: %s\nis shown as\n%v\nnot\n%v", seed, stored, got, want)
	}
}

// updated returns an object after an update. Most updates alter a few fields. The others set random
// fields outside of metadata, without validation: some of its lists then have elements without
// keys, which the library refuses to merge.
func (c *comparison) updated(seed uint64, random *randomTree, hub runtime.Object) runtime.Object {
	versioned, err := c.codec.ToVersion(hub, c.kind.Version)
	require.NoError(c, err)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	require.NoError(c, err)
	if random.IntN(3) > 0 {
		for range 1 + random.IntN(3) {
			random.alter(content)
		}
	} else {
		other := *random
		other.valid, other.nonEmpty = random.IntN(2) == 0, false
		tree := other.object(c.T, c.kind)
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			if name != "apiVersion" && name != "kind" && name != "metadata" && random.IntN(2) == 0 {
				content[name] = tree[name]
			}
		}
	}
	next := c.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, next); err != nil {
		return hub
	}
	updated, err := c.codec.FromVersion(next)
	if err != nil { // the altered object is not convertible
		return hub
	}
	if _, err := c.codec.Store(updated); err != nil {
		return hub
	}
	if next, err := meta.Accessor(updated); err != nil {
		c.Fatal(err)
	} else if live, err := meta.Accessor(hub); err != nil {
		c.Fatal(err)
	} else if random.IntN(2) == 0 {
		next.SetManagedFields(live.GetManagedFields())
	}
	return c.update(seed, hub, updated, []string{"hand", "hand", "foot", ""}[random.IntN(4)])
}

// update returns the result of an update.
func (c *comparison) update(seed uint64, live, next runtime.Object, by string) runtime.Object {
	c.updates++
	before, wanted := c.text(live), c.text(next)
	want := c.library.UpdateNoErrors(live.DeepCopyObject(), next.DeepCopyObject(), by)
	c.asked = false
	got := c.manager.UpdateNoErrors(live, next, by)
	if !c.asked {
		c.updatedFast++
	}
	if after := c.text(live); after != before {
		c.Fatalf("seed %d: an update turns the live object\n%s\ninto\n%s", seed, before, after)
	}
	if c.text(got) != c.text(want) {
		c.Fatalf("seed %d: %s\nis updated by %q to\n%s\nwith\n%s\nnot\n%s", seed, before, by, wanted, c.text(got),
			c.text(want))
	}
	return got
}

// reapply applies configurations of several managers to an object. Most of them resemble what the
// manager applied before.
func (c *comparison) reapply(seed uint64, random *randomTree, hub runtime.Object, config *unstructured.Unstructured) {
	applied := map[string]*unstructured.Unstructured{"op": config}
	for range 5 {
		stored, err := c.codec.Store(hub)
		if err != nil {
			return // the store never contains such an object
		}
		hub, err = c.codec.Load(stored)
		require.NoError(c, err)
		switch random.IntN(8) { // another manager updates the object
		case 0:
			next := hub.DeepCopyObject()
			accessor, err := meta.Accessor(next)
			require.NoError(c, err)
			accessor.SetLabels(map[string]string{random.word(): random.word()})
			hub = c.update(seed, hub, next, "hand")
		case 1, 2, 3, 4:
			if config := applied["op"]; config != nil {
				hub = c.updated(seed, random, hub)
				c.apply(seed, hub.DeepCopyObject(), config.DeepCopy(), "op", true)
			}
		}
		time.Sleep(time.Duration(random.IntN(2)) * time.Second)
		by := []string{"op", "op", "op", "other", "other", "kubectl"}[random.IntN(6)]
		next := applied[by]
		if next != nil {
			next = next.DeepCopy()
		} else if next = config.DeepCopy(); random.IntN(3) > 0 {
			random.removeSome(next.Object)
		}
		for range random.IntN(3) {
			random.alter(next.Object)
		}
		next.SetName("one")
		live := hub.DeepCopyObject()
		got, ok := c.apply(seed, hub, next.DeepCopy(), by, random.IntN(4) > 0)
		if got == nil {
			hub = live
			continue
		}
		if ok {
			c.appliedMore++
		}
		hub, applied[by] = got, next
	}
}

// apply returns the result of an applied configuration, or nil if it is refused. ok reports whether
// the fast path answered.
func (c *comparison) apply(seed uint64, live runtime.Object, config *unstructured.Unstructured, by string,
	force bool) (_ runtime.Object, ok bool) {
	c.applied++
	shown, _ := json.Marshal(config)
	want, wrong := c.library.Apply(live.DeepCopyObject(), config.DeepCopy(), by, force)
	c.asked = false
	before := c.text(live)
	got, err := c.manager.Apply(live, config, by, force)
	if after := c.text(live); after != before {
		c.Fatalf("seed %d: %s\nturns\n%s\ninto\n%s", seed, shown, before, after)
	}
	// the library lists errors in random order
	if (err == nil) != (wrong == nil) || err != nil && !c.asked {
		c.Fatalf("seed %d: %s\nis answered with\n%v\nnot\n%v", seed, shown, err, wrong)
	}
	if err != nil {
		return nil, false
	}
	require.Equalf(c, c.text(got), c.text(want), "seed %d: %s\nmakes of\n%s\nnow", seed, shown, before)
	return got, !c.asked
}

// text returns an object as it is stored, with the times of its managers removed.
func (c *comparison) text(hub runtime.Object) string {
	hub = hub.DeepCopyObject()
	accessor, err := meta.Accessor(hub)
	require.NoError(c, err)
	for i := range accessor.GetManagedFields() {
		if e := &accessor.GetManagedFields()[i]; e.Time != nil {
			e.Time = &metav1.Time{}
		}
	}
	stored, err := c.codec.Store(hub)
	if err != nil {
		return err.Error()
	}
	return string(stored) + fmt.Sprintf(" %T", hub)
}

// TestApplyChecksTheWholeObject applies the same configuration again after an update added an
// element without a key to another list. The library answers with an error, although the
// configuration does not have that list.
func TestApplyChecksTheWholeObject(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	c := &comparison{T: t, codec: codecOf(t, kind), kind: kind}
	c.begin()
	config := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "one"},
			"imagePullSecrets": []any{map[string]any{"name": "a"}},
		}}
	}
	live, _ := c.apply(0, c.empty(), config(), "op", true)
	next := live.DeepCopyObject().(*core.ServiceAccount)
	next.Secrets = []core.ObjectReference{{Namespace: "x"}}
	next.ImagePullSecrets = append(next.ImagePullSecrets, core.LocalObjectReference{})
	live = c.library.UpdateNoErrors(live, next, "hand")
	if _, err := c.library.Apply(live.DeepCopyObject(), config(), "op", true); err == nil {
		t.Fatal("the library accepts the live object")
	}
	c.apply(0, live, config(), "op", true)
}

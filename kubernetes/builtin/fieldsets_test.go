package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/kubernetes/builtin/managedfields"
)

// Whoever sets which fields of random objects of all built-in kinds, the shortcuts and the library agree on what comes of it and who owns what. // SSA-01
func TestFieldSetsAreTheLibrarys(t *testing.T) {
	resources, err := Resources(Config{})
	if err != nil {
		t.Fatal(err)
	}
	rounds := 8
	for _, r := range resources {
		if r.Review != nil {
			continue
		}
		for _, version := range r.Versions {
			kind := r.GVK(version.Name)
			t.Run(kind.GroupVersion().String()+" "+kind.Kind, func(t *testing.T) {
				n := rounds
				if kind.Group == "" || kind.Group == "apps" {
					n *= 4
				}
				c := &comparison{codec: r.Codec.(*Codec), kind: kind}
				synctest.Test(t, func(t *testing.T) { // which has a time of its own
					c.T = t
					c.begin()
					for seed := range n {
						c.round(uint64(seed))
					}
				})
				t.Logf("of %d applied: %d made, %d alike; of %d created: %d; shown: %d", c.applied, c.made, c.alike, c.createdAll, c.created, c.shown)
				if c.made == 0 || c.created == 0 {
					t.Errorf("no shortcut was ever taken: %d, %d", c.made, c.created)
				}
			})
		}
	}
}

// comparison holds the manager of one kind to the library.
type comparison struct {
	*testing.T
	codec   *Codec
	kind    schema.GroupVersionKind
	manager *managedfields.Manager
	library resource.FieldManager

	applied, made, alike, createdAll, created, shown int
	asked                                            bool // the library was
}

func (c *comparison) begin() {
	c.Helper()
	made, err := c.codec.FieldManager(c.kind.Version, "")
	if err != nil {
		c.Fatal(err)
	}
	manager, ok := made.(*managedfields.Manager)
	if !ok {
		c.Skipf("a %T", made)
	}
	c.library = manager.Library
	config := manager.Config
	config.Library = c
	if c.manager, err = managedfields.New(config); err != nil {
		c.Fatal(err)
	}
}

// UpdateNoErrors and Apply are the library's, and note that it was asked.
func (c *comparison) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	c.asked = true
	return c.library.UpdateNoErrors(live, next, by)
}

func (c *comparison) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	c.asked = true
	return c.library.Apply(live, config, by, force)
}

func (c *comparison) empty() runtime.Object {
	obj, err := c.codec.scheme.New(c.kind)
	if err != nil {
		c.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(c.kind)
	return obj
}

func (c *comparison) round(seed uint64) {
	random := &randomTree{Rand: rand.New(rand.NewPCG(seed, 7)), schemas: sharedSchemas()}
	random.sound, random.usual = seed%4 != 0, seed%4 >= 2
	tree := random.object(c.T, c.kind)
	config := &unstructured.Unstructured{Object: tree}
	hub, ok := c.apply(seed, c.empty(), config.DeepCopy(), "op", true)
	if hub != nil {
		c.again(seed, random, hub, config)
	}
	if !ok {
		return
	}
	c.made++

	// The same as it is created by a client's hands.
	versioned := c.empty()
	var err error
	if err = runtime.DefaultUnstructuredConverter.FromUnstructured(config.DeepCopy().Object, versioned); err != nil {
		return
	}
	hub, err = c.codec.FromVersion(versioned)
	if err != nil {
		c.Fatal(err)
	}
	c.createdAll++
	want := c.library.UpdateNoErrors(c.empty(), hub.DeepCopyObject(), "hand")
	c.asked = false
	before := c.text(hub)
	got := c.manager.UpdateNoErrors(c.empty(), hub, "hand")
	if !c.asked {
		c.created++
	}
	if c.text(got) != c.text(want) {
		c.Fatalf("seed %d: %s\nis created with\n%s\nnot\n%s", seed, before, c.text(got), c.text(want))
	}
	c.written(seed, got)
}

// written says that an object is answered with the same bytes whether it is loaded or still at hand.
func (c *comparison) written(seed uint64, hub runtime.Object) {
	stored, err := c.codec.Store(hub)
	if err != nil {
		return
	}
	loaded, err := c.codec.Load(stored)
	if err != nil {
		c.Fatal(err)
	}
	want, err := c.codec.ToVersion(loaded, c.kind.Version)
	if err != nil {
		c.Fatal(err)
	}
	got, ok := c.codec.Written(hub, stored, c.kind.Version)
	if !ok {
		return
	}
	c.shown++
	a, err := wire.Encode(resource.MediaProtobuf, want)
	if err != nil {
		c.Fatal(err)
	}
	b, err := wire.Encode(resource.MediaProtobuf, got)
	if err != nil {
		c.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		c.Fatalf("seed %d: %s\nis shown as\n%v\nnot\n%v", seed, stored, got, want)
	}
}

// again applies configurations of several managers to an object, mostly such as they applied before.
func (c *comparison) again(seed uint64, random *randomTree, hub runtime.Object, config *unstructured.Unstructured) {
	applied := map[string]*unstructured.Unstructured{"op": config}
	for range 5 {
		stored, err := c.codec.Store(hub)
		if err != nil {
			return // it is not one that could be stored
		}
		if hub, err = c.codec.Load(stored); err != nil {
			c.Fatal(err)
		}
		if random.IntN(8) == 0 { // somebody else writes
			next := hub.DeepCopyObject()
			accessor, err := meta.Accessor(next)
			if err != nil {
				c.Fatal(err)
			}
			accessor.SetLabels(map[string]string{random.word(): random.word()})
			hub = c.library.UpdateNoErrors(hub, next, "hand")
		}
		time.Sleep(time.Duration(random.IntN(2)) * time.Second)
		by := []string{"op", "op", "op", "other"}[random.IntN(4)]
		next := applied[by]
		if next == nil {
			next = config
		}
		next = next.DeepCopy()
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
			c.alike++
		}
		hub, applied[by] = got, next
	}
}

// apply gives what comes of an applied configuration; ok says that it was the shortcut's.
func (c *comparison) apply(seed uint64, live runtime.Object, config *unstructured.Unstructured, by string, force bool) (_ runtime.Object, ok bool) {
	c.applied++
	shown, _ := json.Marshal(config)
	want, wrong := c.library.Apply(live.DeepCopyObject(), config.DeepCopy(), by, force)
	c.asked = false
	before := c.text(live)
	got, err := c.manager.Apply(live, config, by, force)
	if after := c.text(live); after != before {
		c.Fatalf("seed %d: %s\nturns\n%s\ninto\n%s", seed, shown, before, after)
	}
	if (err == nil) != (wrong == nil) || err != nil && !c.asked { // the library's words come in the order of a map
		c.Fatalf("seed %d: %s\nis answered with\n%v\nnot\n%v", seed, shown, err, wrong)
	}
	if err != nil {
		return nil, false
	}
	if c.text(got) != c.text(want) {
		c.Fatalf("seed %d: %s\nmakes of\n%s\nnow\n%s\nnot\n%s", seed, shown, before, c.text(got), c.text(want))
	}
	return got, !c.asked
}

// text is an object as it is stored, with all times of its managers alike.
func (c *comparison) text(hub runtime.Object) string {
	hub = hub.DeepCopyObject()
	accessor, err := meta.Accessor(hub)
	if err != nil {
		c.Fatal(err)
	}
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

// randomTree makes random objects by their schemas.
type randomTree struct {
	*rand.Rand
	schemas *schemas
	schema  *smd.Schema
	sound   bool // nothing is wrong with it, and nothing odd
	usual   bool // all that is there has something in it
	bytes   bool // what is made now is base64
	depth   int
}

func (r *randomTree) object(t *testing.T, kind schema.GroupVersionKind) map[string]any {
	known, err := r.schemas.of(kind)
	if err != nil || known == nil {
		t.Skip("no schema: ", err)
	}
	r.schema = known.Schema
	tree, _ := r.value(known.TypeRef).(map[string]any)
	if tree == nil {
		tree = map[string]any{}
	}
	tree["apiVersion"], tree["kind"] = kind.GroupVersion().String(), kind.Kind
	metadata, _ := tree["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	if r.sound || r.IntN(4) > 0 {
		delete(metadata, "managedFields")
	}
	if r.usual {
		delete(metadata, "uid")
	}
	metadata["name"] = "one"
	return tree
}

var randomWords = []string{"a", "b", "c", "web", "app.example.com/x", "TCP", "UDP", "Always", "x-1"}

// encodedMembers are bytes; the schemas don't know that.
var encodedMembers = []string{"binaryData", "caBundle", "request", "certificate", "data"}

// rareMembers are set by servers.
var rareMembers = []string{"status", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink", "namespace"}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case int64:
		return v == 0
	case bool:
		return !v
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func (r *randomTree) word() string {
	if r.bytes {
		return []string{"", "dGVzdA==", "YQ=="}[r.IntN(3)]
	}
	if !r.sound && r.IntN(20) == 0 {
		return []string{"", "a<b", `q"q`, "ä", `back\slash`, "new\nline"}[r.IntN(6)]
	}
	return randomWords[r.IntN(len(randomWords))]
}

func (r *randomTree) value(ref smd.TypeRef) any {
	r.depth++
	defer func() { r.depth-- }()
	if !r.usual && r.IntN(60) == 0 && !(r.sound && r.IntN(3) > 0) {
		return nil
	}
	if !r.sound && r.IntN(150) == 0 {
		return []any{int64(7), "odd", true, map[string]any{"odd": "x"}, []any{"odd"}}[r.IntN(5)]
	}
	if ref.NamedType != nil {
		name := *ref.NamedType
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "Quantity":
			if r.usual {
				return []any{"1", "100m", "1536Mi"}[r.IntN(3)]
			}
			return []any{"1", "100m", "1.5Gi", "0", int64(2), "0.1"}[r.IntN(6)]
		case "Time":
			return "2026-01-02T03:04:05Z"
		case "MicroTime":
			return "2026-01-02T03:04:05.000006Z"
		case "Duration":
			return "1h0m0s"
		case "IntOrString":
			return []any{int64(80), "http", "25%", int64(0)}[r.IntN(4)]
		case "RawExtension", "FieldsV1", "JSON":
			if r.sound {
				return nil
			}
			return map[string]any{"f:a": map[string]any{}}
		}
	}
	a, ok := r.schema.Resolve(ref)
	switch {
	case !ok:
		return nil
	case a.Scalar != nil:
		switch *a.Scalar {
		case smd.Numeric:
			return int64(r.IntN(4))
		case smd.Boolean:
			return r.IntN(2) == 0
		}
		return r.word()
	case a.List != nil:
		out := []any{}
		for range r.IntN(4) {
			element := r.value(a.List.ElementType)
			if element == nil && r.sound {
				continue
			}
			if members, ok := element.(map[string]any); ok {
				for _, key := range a.List.Keys {
					if members[key] == nil {
						delete(members, key)
					}
				}
				if element, _ := r.schema.Resolve(a.List.ElementType); r.usual && element.Map != nil {
					for _, key := range a.List.Keys {
						if f, ok := element.Map.FindField(key); ok && members[key] == nil && (f.Default == nil || f.Default == "") {
							members[key] = r.value(f.Type)
						}
					}
				}
			}
			if r.sound && a.List.ElementRelationship == smd.Associative && slices.ContainsFunc(out, func(other any) bool { return sameKeys(a.List.Keys, element, other) }) {
				continue
			}
			out = append(out, element)
		}
		return out
	case a.Map != nil:
		out := map[string]any{}
		for _, f := range a.Map.Fields {
			if r.IntN(3+r.depth) > 2 || r.depth > 9 || r.usual && (slices.Contains(rareMembers, f.Name) || r.IntN(2) == 0) {
				continue
			}
			r.bytes = r.bytes || slices.Contains(encodedMembers, f.Name)
			value := r.value(f.Type)
			r.bytes = false
			if !r.usual || !empty(value) {
				out[f.Name] = value
			}
		}
		if a.Map.ElementType != (smd.TypeRef{}) {
			for range r.IntN(3) {
				out[r.word()] = r.value(a.Map.ElementType)
			}
		} else if !r.sound && r.IntN(100) == 0 {
			out["unheardOf"] = "x"
		}
		return out
	}
	return nil
}

// alter gives a random text or number in a tree another value, or takes it away.
func (r *randomTree) alter(tree map[string]any) {
	names := slices.Sorted(maps.Keys(tree))
	for range 4 {
		name := names[r.IntN(len(names))]
		switch v := tree[name].(type) {
		case map[string]any:
			if len(v) > 0 {
				r.alter(v)
				return
			}
		case []any:
			if len(v) == 0 {
				continue
			}
			i := r.IntN(len(v))
			if element, ok := v[i].(map[string]any); ok && len(element) > 0 {
				r.alter(element)
				return
			}
		case string:
			switch {
			case name == "apiVersion" || name == "kind":
				continue
			case r.IntN(6) == 0:
				delete(tree, name)
			case strings.HasSuffix(v, "=") || strings.HasSuffix(v, "Z"):
				continue
			default:
				tree[name] = r.word()
			}
			return
		case int64:
			tree[name] = int64(r.IntN(5))
			return
		case bool:
			tree[name] = !v
			return
		}
	}
}

func sameKeys(keys []string, a, b any) bool {
	x, isMap := a.(map[string]any)
	y, _ := b.(map[string]any)
	if !isMap {
		return a == b
	}
	for _, key := range keys {
		if fmt.Sprint(x[key]) != fmt.Sprint(y[key]) {
			return false
		}
	}
	return true
}

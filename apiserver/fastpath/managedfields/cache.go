package managedfields

import (
	"bytes"
	"reflect"
	"sync"
	"unsafe"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/internal/intern"
	"kelson.dev/operator/tree"
)

// Cache holds the field sets of a kind in three forms: encoded, as the tree in an object, and as a
// set. A program mostly writes the same fields of all objects of a kind, so a few sets suffice for
// a million objects. It is safe for concurrent use.
type Cache struct {
	mu     sync.RWMutex
	byRaw  map[string]*fields
	byTree map[unsafe.Pointer]*fields
	bySet  map[*fieldpath.Set]*fields

	texts intern.Pool
}

// fields is one field set. It is immutable.
type fields struct {
	raw  []byte // encoded with sorted names, as in stored objects
	tree map[string]any
	set  func() (*fieldpath.Set, error)

	reconciled sync.Map // the versions for which reconcile returned true
}

// isReconciled reports whether reconcile returned true for a version before.
func (f *fields) isReconciled(version string) bool {
	_, ok := f.reconciled.Load(version)
	return ok
}

// reconcile reports whether the set fits the schema of a version and has no unowned fields. A set
// does not fit if it was recorded when a list or map was atomic and no longer is, or the other way
// around. value is any value with that schema.
func (f *fields) reconcile(version string, value *typed.TypedValue) bool {
	set, err := f.set()
	if err != nil || !set.Intersection(unowned).Empty() {
		return false
	}
	changed, err := typed.ReconcileFieldSetWithSchema(set, value) // looks at the schema only
	if err != nil || changed != nil {
		return false
	}
	f.reconciled.Store(version, nil)
	return true
}

const (
	// most is the number of sets that a Cache holds. A full Cache is emptied.
	most = 512
	// longest is the size, in bytes of its encoding, of the largest set that a Cache holds.
	longest = 16 << 10
)

// NewCache returns an empty Cache.
func NewCache() *Cache {
	c := &Cache{}
	c.clear()
	return c
}

func (c *Cache) clear() {
	c.byRaw, c.byTree, c.bySet = map[string]*fields{}, map[unsafe.Pointer]*fields{}, map[*fieldpath.Set]*fields{}
}

func address(tree map[string]any) unsafe.Pointer { return reflect.ValueOf(tree).UnsafePointer() }

// lookup returns the fields of a tree that came from this cache.
func (c *Cache) lookup(tree map[string]any) (*fields, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.byTree[address(tree)]
	return f, ok
}

// known reports whether a tree came from this cache. Such a tree consists of maps only, and no
// caller changes it.
func (c *Cache) known(tree map[string]any) bool {
	_, ok := c.lookup(tree)
	return ok
}

// read returns the fields of an encoded set.
func (c *Cache) read(raw []byte) (*fields, error) {
	c.mu.RLock()
	f, ok := c.byRaw[string(raw)]
	c.mu.RUnlock()
	if ok {
		return f, nil
	}
	content, err := tree.Parse(raw, nil)
	if err != nil {
		return nil, err
	}
	return c.keep(raw, content)
}

// keep adds a set. The names in raw may have any order.
func (c *Cache) keep(raw []byte, content map[string]any) (*fields, error) {
	if !onlyMaps(content) {
		return nil, tree.ErrUnusual
	}
	ordered, err := tree.Append(nil, content, nil)
	if err != nil {
		return nil, err
	}
	f := &fields{raw: ordered, tree: content}
	f.set = sync.OnceValues(func() (*fieldpath.Set, error) {
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(ordered)); err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byTree[address(content)] == f {
			c.bySet[set] = f
		}
		return set, nil
	})
	if len(raw) > longest {
		return f, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byRaw[string(ordered)]; ok {
		if string(raw) != string(ordered) {
			c.byRaw[string(raw)] = known
		}
		return known, nil
	}
	if len(c.byRaw) >= most {
		c.clear()
	}
	c.byRaw[string(ordered)], c.byTree[address(content)] = f, f
	if string(raw) != string(ordered) {
		c.byRaw[string(raw)] = f
	}
	return f, nil
}

// ofSet returns the fields of a set.
func (c *Cache) ofSet(set *fieldpath.Set) (*fields, error) {
	c.mu.RLock()
	f, ok := c.bySet[set]
	c.mu.RUnlock()
	if ok {
		return f, nil
	}
	raw, err := set.ToJSON()
	if err != nil {
		return nil, err
	}
	return c.read(raw)
}

// ofTree returns the fields of a tree, which may come from this cache or not.
func (c *Cache) ofTree(content map[string]any) (*fields, error) {
	if f, ok := c.lookup(content); ok {
		return f, nil
	}
	raw, err := tree.Append(nil, content, nil)
	if err != nil {
		return nil, err
	}
	return c.read(raw)
}

func onlyMaps(content map[string]any) bool {
	for _, value := range content {
		inner, ok := value.(map[string]any)
		if !ok || !onlyMaps(inner) {
			return false
		}
	}
	return true
}

// Bytes implements [tree.Bytes].
func (c *Cache) Bytes(content map[string]any) ([]byte, bool) {
	if f, ok := c.lookup(content); ok {
		return f.raw, true
	}
	return nil, false
}

// Parse parses a JSON object. Its managedFields share the trees of this cache. The only error is
// [tree.ErrUnusual].
func (c *Cache) Parse(data []byte) (map[string]any, error) {
	t := c.texts.Get()
	defer c.texts.Put(t)
	return tree.Parse(data, sharing{c, t})
}

// sharing gives the parser the strings and field sets that objects of a kind have in common.
type sharing struct {
	*Cache
	*intern.Texts
}

func (s sharing) Fields(raw []byte) (map[string]any, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f, ok := s.byRaw[string(raw)]; ok {
		return f.tree, true
	}
	return nil, false
}

// Keep implements [tree.Sharing]. If the cache already holds the set with another tree, the object
// keeps its own tree.
func (s sharing) Keep(raw []byte, content map[string]any) { _, _ = s.keep(raw, content) }

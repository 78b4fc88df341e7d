package managedfields

import (
	"bytes"
	"reflect"
	"sync"
	"unsafe"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/internal/intern"
	"kelson.dev/internal/tree"
)

// Cache holds the field sets of a kind in three forms: encoded, as the tree in an object, and as a
// set. A program mostly writes the same fields of all objects of a kind, so a few sets are enough
// for a million objects. The zero value is an empty Cache. A Cache is safe for concurrent use.
type Cache struct {
	mu     sync.RWMutex
	byRaw  map[string]*fields
	byTree map[unsafe.Pointer]*fields
	bySet  map[*fieldpath.Set]*fields

	texts intern.Pool
}

// fields is one field set. It is immutable.
type fields struct {
	// raw is the encoding: with sorted names if there is a tree, otherwise as the object has it.
	raw  []byte
	tree map[string]any // the form in maps; nil if the set comes from a struct
	set  func() (*fieldpath.Set, error)

	fitting sync.Map // the versions for which fits returned true
}

// fits reports whether the library would not change the set: the set fits the schema of a version,
// and has no unowned fields. A set that was recorded under another schema may not fit: a list or
// map can be atomic in one schema and not in the other. schema returns any value with that schema.
func (f *fields) fits(version string, schema func() (*typed.TypedValue, error)) bool {
	if _, ok := f.fitting.Load(version); ok {
		return true
	}
	set, err := f.set()
	if err != nil || set.Empty() || !set.Intersection(unowned).Empty() {
		return false
	}
	if f.tree == nil { // structs keep the bytes, which must be as the library writes them
		raw, err := set.ToJSON()
		if err != nil || !bytes.Equal(raw, f.raw) {
			return false
		}
	}
	value, err := schema()
	if err != nil {
		return false
	}
	changed, err := typed.ReconcileFieldSetWithSchema(set, value) // looks at the schema only
	if err != nil || changed != nil {
		return false
	}
	f.fitting.Store(version, nil)
	return true
}

const (
	// maxSets is the number of sets that a Cache holds. A full Cache is emptied.
	maxSets = 512
	// maxSetBytes is the size, in bytes of its encoding, of the largest set that a Cache holds.
	maxSetBytes = 16 << 10
)

func address(tree map[string]any) unsafe.Pointer { return reflect.ValueOf(tree).UnsafePointer() }

// lookup returns the fields of a tree that came from this cache.
func (c *Cache) lookup(tree map[string]any) (*fields, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.byTree[address(tree)]
	return f, ok
}

// fromCache reports whether a tree came from this cache. Such a tree consists of maps only, and no
// caller changes it.
func (c *Cache) fromCache(tree map[string]any) bool {
	_, ok := c.lookup(tree)
	return ok
}

func (c *Cache) byBytes(raw []byte) (*fields, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.byRaw[string(raw)]
	return f, ok
}

// read returns the fields of an encoded set, with their tree.
func (c *Cache) read(raw []byte) (*fields, error) {
	if f, ok := c.byBytes(raw); ok {
		return f, nil
	}
	content, err := tree.Parse(raw, nil)
	if err != nil {
		return nil, err
	}
	return c.keep(raw, content)
}

// encoded returns the fields of an encoded set, without a tree.
func (c *Cache) encoded(raw []byte) *fields {
	if f, ok := c.byBytes(raw); ok {
		return f
	}
	return c.add(bytes.Clone(raw), nil)
}

// keep adds a set. The names in raw may have any order.
func (c *Cache) keep(raw []byte, content map[string]any) (*fields, error) {
	if !onlyMaps(content) {
		return nil, tree.ErrUnusual
	}
	sorted, err := tree.Append(nil, content, nil)
	if err != nil {
		return nil, err
	}
	f := c.add(sorted, content)
	if string(raw) != string(sorted) && max(len(raw), len(sorted)) <= maxSetBytes {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byRaw[string(raw)] = f
	}
	return f, nil
}

// add adds a set, unless the Cache has it already or the set is too long.
func (c *Cache) add(raw []byte, content map[string]any) *fields {
	f := &fields{raw: raw, tree: content}
	f.set = sync.OnceValues(func() (*fieldpath.Set, error) {
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(raw)); err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byRaw[string(raw)] == f {
			c.bySet[set] = f
		}
		return set, nil
	})
	if len(raw) > maxSetBytes {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.byRaw[string(raw)]; ok {
		return existing
	}
	if c.byRaw == nil || len(c.byRaw) >= maxSets {
		c.byRaw, c.byTree, c.bySet = map[string]*fields{}, map[unsafe.Pointer]*fields{}, map[*fieldpath.Set]*fields{}
	}
	c.byRaw[string(raw)] = f
	if content != nil {
		c.byTree[address(content)] = f
	}
	return f
}

// ofSet returns the fields of a set, with or without their tree.
func (c *Cache) ofSet(set *fieldpath.Set, withTree bool) (*fields, error) {
	c.mu.RLock()
	f, ok := c.bySet[set]
	c.mu.RUnlock()
	if ok {
		return f, nil
	}
	raw, err := set.ToJSON()
	switch {
	case err != nil:
		return nil, err
	case !withTree:
		return c.encoded(raw), nil
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
	f, ok := s.byBytes(raw)
	if !ok {
		return nil, false
	}
	return f.tree, true
}

// Keep implements [tree.Sharing]. If the cache already holds the set with another tree, the object
// keeps its own tree.
func (s sharing) Keep(raw []byte, content map[string]any) { _, _ = s.keep(raw, content) }

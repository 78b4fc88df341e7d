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

// Cache keeps the field sets of a kind: as they are encoded, as the trees that objects have of them, and as sets. What is written of
// objects of one kind by one program is mostly alike, so a few sets do for a million objects. It may be used by several goroutines at once.
type Cache struct {
	mu     sync.RWMutex
	byRaw  map[string]*fields
	byTree map[unsafe.Pointer]*fields
	bySet  map[*fieldpath.Set]*fields

	texts intern.Pool
}

// fields is one field set. It never changes.
type fields struct {
	raw  []byte // as objects are stored: names in order
	tree map[string]any
	set  func() (*fieldpath.Set, error)

	settled sync.Map // the versions of which settle is true
}

// isSettled says that settle was true before.
func (f *fields) isSettled(version string) bool {
	_, ok := f.settled.Load(version)
	return ok
}

// settle says that a set is one that writes in a version give: the schema of the version, which value has, takes it as it is (no part of it was
// made when a list or map was atomic and is not, or the other way around), and it has nothing that is nobody's.
func (f *fields) settle(version string, value *typed.TypedValue) bool {
	set, err := f.set()
	if err != nil || !set.Intersection(unowned).Empty() {
		return false
	}
	changed, err := typed.ReconcileFieldSetWithSchema(set, value) // looks at the schema only
	if err != nil || changed != nil {
		return false
	}
	f.settled.Store(version, nil)
	return true
}

const (
	// most is how many sets a kind's cache has; when it is full, it begins anew.
	most = 512
	// longest is the most bytes that are kept of one.
	longest = 16 << 10
)

// NewCache makes an empty one.
func NewCache() *Cache {
	c := &Cache{}
	c.clear()
	return c
}

func (c *Cache) clear() {
	c.byRaw, c.byTree, c.bySet = map[string]*fields{}, map[unsafe.Pointer]*fields{}, map[*fieldpath.Set]*fields{}
}

func address(tree map[string]any) unsafe.Pointer { return reflect.ValueOf(tree).UnsafePointer() }

// of finds what is known of a tree that came from this cache.
func (c *Cache) of(tree map[string]any) (*fields, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f, ok := c.byTree[address(tree)]
	return f, ok
}

// known says whether a tree is one that this cache gave: then it is made of maps only, and nobody changes it.
func (c *Cache) known(tree map[string]any) bool {
	_, ok := c.of(tree)
	return ok
}

// read gives the fields of encoded ones.
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

// keep adds fields, whose encoding may have its names in any order.
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

// ofSet gives the fields of a set.
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

// ofTree gives the fields of a tree, whether it came from this cache or not.
func (c *Cache) ofTree(content map[string]any) (*fields, error) {
	if f, ok := c.of(content); ok {
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
	if f, ok := c.of(content); ok {
		return f.raw, true
	}
	return nil, false
}

// Parse reads an object whose field sets are those of this cache. An error is [tree.ErrUnusual].
func (c *Cache) Parse(data []byte) (map[string]any, error) {
	t := c.texts.Get()
	defer c.texts.Put(t)
	return tree.Parse(data, sharing{c, t})
}

// sharing is what objects of a kind have in common while one of them is read.
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

// Keep implements [tree.Sharing]. A tree that is known by other bytes stays what it is in the object, unknown.
func (s sharing) Keep(raw []byte, content map[string]any) { _, _ = s.keep(raw, content) }

package ownership

import (
	"cmp"
	"slices"
	"strings"

	"kelson.dev/console/internal/inventory"
)

// Node is an object, or several of one kind with the same parent, in the drawing.
type Node struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Count     int    `json:"count,omitempty"` // of objects, if the node represents several
	Deleting  bool   `json:"deleting,omitempty"`
	// Tone is "bad" or "wait" if the object, or some of several, has a problem.
	Tone string `json:"tone,omitempty"`
	// Problems is the number of objects with a problem, if the node represents several.
	Problems int `json:"problems,omitempty"`
	X        int `json:"x"`
	Y        int `json:"y"`
}

// Edge leads from an owner to an object that it owns, or from an object to one to which it refers.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Type string `json:"type"` // owns, selects, or refers
}

// Graph is the drawing. Positions are in units of a column and a row.
type Graph struct {
	Nodes   []*Node `json:"nodes"`
	Edges   []Edge  `json:"edges"`
	Columns int     `json:"columns"`
	Rows    int     `json:"rows"`
	Objects int     `json:"objects"`
	// Folded means that objects of one kind with the same owner are one node, because there are
	// more than maxNodes objects.
	Folded bool `json:"folded,omitempty"`
	// Groups are the namespaces, each in the row above its objects.
	Groups []Group `json:"groups"`
	// Bad is how many of the objects have a problem.
	Bad int `json:"bad,omitempty"`
}

// Group is a namespace of the drawing; "" are the objects without a namespace.
type Group struct {
	Namespace string `json:"namespace"`
	Y         int    `json:"y"`
}

// maxNodes is the number of objects up to which each object is a separate node.
const maxNodes = 300

// tree is an object with the objects that it owns.
type tree struct {
	object   *inventory.Object
	owned    []*tree
	count    int // number of objects that the tree represents
	column   int
	row      int
	attached bool // it has an owner, or it is at either end of a reference
	tone     string
	problems int // of the objects that the tree represents
}

// unwell reports whether the object, or one that it owns, has a problem.
func (t *tree) unwell() bool {
	return t.tone != "" || slices.ContainsFunc(t.owned, (*tree).unwell)
}

// add counts another tree among the objects that t represents.
func (t *tree) add(other *tree) {
	t.count++
	t.owned = append(t.owned, other.owned...)
	t.problems += other.problems
	if t.tone != "bad" && other.tone != "" {
		t.tone = other.tone
	}
}

// layout draws objects in the order of their names, and owners to the left of the objects that they
// own. References and selections are edges. tone returns the tone of an object. If only is true, it
// draws only trees that have problems. Of objects with the same UID, which only a faulty server
// returns, it draws the first: a tree must not be its own sibling.
func layout(objects []*inventory.Object, all, only bool, tone func(*inventory.Object) string) Graph {
	g := Graph{Nodes: []*Node{}, Edges: []Edge{}, Groups: []Group{}, Objects: len(objects)}
	trees := map[string]*tree{} // by UID
	byName := map[inventory.Reference]map[string]*tree{}
	objects = slices.DeleteFunc(slices.Clone(objects), func(o *inventory.Object) bool {
		_, known := trees[o.UID]
		trees[o.UID] = nil
		return known
	})
	for _, o := range objects {
		t := &tree{object: o, count: 1, tone: tone(o)}
		if t.tone != "" {
			t.problems = 1
			g.Bad++
		}
		trees[o.UID] = t
		key := inventory.Reference{Kind: o.Kind, Name: o.Name}
		if byName[key] == nil {
			byName[key] = map[string]*tree{}
		}
		byName[key][o.Namespace] = t
	}
	var roots []*tree
	for _, o := range objects {
		t := trees[o.UID]
		if owner := ownerOf(o, trees); owner != nil && !above(t, owner, trees) {
			owner.owned = append(owner.owned, t)
			owner.attached, t.attached = true, true
		} else {
			roots = append(roots, t)
		}
	}
	links := references(objects, trees, byName)
	shown := 0
	roots = slices.DeleteFunc(roots, func(t *tree) bool {
		hidden := !all && !t.attached && t.tone == "" || only && !t.unwell()
		if !hidden {
			shown += t.size()
		}
		return hidden
	})
	represents := map[string]*tree{} // tree that represents an object, by UID
	g.Folded = shown > maxNodes
	roots = fold(roots, g.Folded, represents)
	slices.SortStableFunc(roots, func(a, b *tree) int {
		return strings.Compare(a.object.Namespace, b.object.Namespace)
	})
	for i, t := range roots {
		if i == 0 || t.object.Namespace != roots[i-1].object.Namespace {
			g.Groups = append(g.Groups, Group{t.object.Namespace, g.Rows})
			g.Rows++
		}
		g.place(t, 0)
	}
	drawn := map[Edge]bool{}
	for _, l := range links {
		from, to := represents[l.From], represents[l.To]
		if from == nil || to == nil || from == to {
			continue
		}
		e := Edge{from.object.UID, to.object.UID, l.Type}
		if !drawn[e] {
			drawn[e] = true
			g.Edges = append(g.Edges, e)
		}
	}
	return g
}

// size returns the number of objects of the tree.
func (t *tree) size() int {
	n := 1
	for _, owned := range t.owned {
		n += owned.size()
	}
	return n
}

func ownerOf(o *inventory.Object, trees map[string]*tree) *tree {
	var found *tree
	for _, ref := range o.Owners {
		if t := trees[ref.UID]; t != nil && (found == nil || ref.Controller) {
			found = t
		}
	}
	return found
}

// above reports whether owner is t or is owned by t, directly or through others: owner references
// may form a cycle.
func above(t, owner *tree, trees map[string]*tree) bool {
	for hops := 0; owner != nil; hops++ {
		if owner == t || hops > len(trees) {
			return true
		}
		owner = ownerOf(owner.object, trees)
	}
	return false
}

// references returns the edges that are not ownership, between UIDs, and marks their ends.
func references(objects []*inventory.Object, trees map[string]*tree,
	byName map[inventory.Reference]map[string]*tree) []Edge {
	var edges []Edge
	add := func(from, to *tree, kind string) {
		from.attached, to.attached = true, true
		edges = append(edges, Edge{from.object.UID, to.object.UID, kind})
	}
	pods := map[string][]*inventory.Object{} // by namespace
	for _, o := range objects {
		if o.Resource == "pods" {
			pods[o.Namespace] = append(pods[o.Namespace], o)
		}
	}
	for _, o := range objects {
		from := trees[o.UID]
		for _, ref := range o.References {
			to := byName[ref][o.Namespace]
			if to == nil {
				to = byName[ref][""]
			}
			if to != nil && to != from {
				add(from, to, "refers")
			}
		}
		if len(o.Selector) > 0 {
			for _, pod := range pods[o.Namespace] {
				if selects(o.Selector, pod.Labels) {
					add(from, trees[pod.UID], "selects")
				}
			}
		}
	}
	return edges
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// fold sorts siblings, and joins those of one kind if there are too many objects. It records which
// tree represents each object.
func fold(siblings []*tree, join bool, represents map[string]*tree) []*tree {
	slices.SortFunc(siblings, func(a, b *tree) int {
		return cmp.Or(
			cmp.Compare(min(1, len(b.owned)), min(1, len(a.owned))), // trees before single objects
			strings.Compare(a.object.Namespace, b.object.Namespace),
			strings.Compare(a.object.Kind, b.object.Kind), strings.Compare(a.object.Name, b.object.Name))
	})
	var kept []*tree
	for _, t := range siblings {
		if last := len(kept) - 1; join && last >= 0 && kept[last].object.Resource == t.object.Resource &&
			kept[last].object.Namespace == t.object.Namespace {
			kept[last].add(t)
			represents[t.object.UID] = kept[last]
			continue
		}
		represents[t.object.UID] = t
		kept = append(kept, t)
	}
	for _, t := range kept {
		t.owned = fold(t.owned, join, represents)
	}
	return kept
}

// place sets the position of a tree: a leaf takes the next row, and an owner is in the row of the
// first object that it owns.
func (g *Graph) place(t *tree, column int) {
	t.column, t.row = column, g.Rows
	o := t.object
	n := &Node{ID: o.UID, Kind: o.Kind, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name,
		Deleting: o.Deleted != nil, Tone: t.tone, X: column, Y: t.row}
	if t.count > 1 {
		n.Count, n.Name, n.Problems = t.count, "", t.problems
	}
	g.Nodes = append(g.Nodes, n)
	g.Columns = max(g.Columns, column+1)
	for _, owned := range t.owned {
		g.Edges = append(g.Edges, Edge{o.UID, owned.object.UID, "owns"})
		g.place(owned, column+1)
	}
	if len(t.owned) == 0 {
		g.Rows++
	}
}

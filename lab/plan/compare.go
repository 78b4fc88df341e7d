package plan

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/history"
)

// ending holds the result of a run.
type ending struct {
	snapshot *store.Snapshot
	before   uint64             // the revision when the operator started
	began    time.Time          // when it started
	touched  map[store.Key]bool // by the operator
	secrets  *secrets
}

// Compare sets Differences to the objects that end differently than with another version of the
// operator, which is called name. The other plan must be of the same State. Compare ignores
// identifiers and times that differ between equal runs.
func (p *Plan) Compare(old *Plan, name string) error {
	p.Compared, p.Differences = name, nil
	touched := maps.Clone(p.touched)
	maps.Copy(touched, old.touched)
	ends, err := p.ends(touched)
	if err != nil {
		return err
	}
	oldEnds, err := old.ends(touched)
	if err != nil {
		return err
	}
	ids := maps.Clone(ends)
	maps.Copy(ids, oldEnds)
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b Ref) int {
		return strings.Compare(a.String(), b.String())
	}) {
		for i := range max(len(ends[id]), len(oldEnds[id])) {
			d, different, err := difference(id, at(oldEnds[id], i), at(ends[id], i))
			if err != nil {
				return err
			}
			if !different {
				continue
			}
			p.secrets.changes(old.secrets.changes(d.Changes))
			d.Steps = p.stepsOf(id)
			p.Differences = append(p.Differences, d)
		}
	}
	return nil
}

func at(list [][]byte, i int) []byte {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func difference(id Ref, before, after []byte) (d Difference, different bool, err error) {
	d = Difference{Object: id}
	switch {
	case before == nil:
		d.Only = "new"
	case after == nil:
		d.Only = "old"
	}
	changes, err := history.Diff(before, after, history.DiffOptions{})
	if d.Only == "" {
		d.Changes = flat(changes)
	}
	return d, len(changes) > 0, err
}

// stepsOf returns the steps that wrote an object.
func (p *Plan) stepsOf(id Ref) (numbers []int) {
	for _, s := range p.Steps {
		if slices.ContainsFunc(s.Writes, func(w Write) bool { return generic(w.Object, id) == id }) {
			numbers = append(numbers, s.Number)
		}
	}
	return numbers
}

// generic returns r with the name of like if that name is PREFIX* and r's name has the prefix.
func generic(r, like Ref) Ref {
	if prefix, ok := strings.CutSuffix(like.Name, "*"); ok && strings.HasPrefix(r.Name, prefix) {
		r.Name = like.Name
	}
	return r
}

// ends returns the objects with the given keys at the end of a run, without values that differ
// between equal runs. Objects with generated names share an id.
func (p *Plan) ends(keys map[store.Key]bool) (map[Ref][][]byte, error) {
	n := &names{before: p.before, began: p.began, uids: map[types.UID]string{}, generated: map[string]string{}}
	var objects []*unstructured.Unstructured
	var refs []Ref
	for _, key := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		obj := p.snapshot.Get(key)
		if obj == nil {
			continue
		}
		u, err := decode(obj.Data)
		if err != nil {
			return nil, err
		}
		n.learn(u, obj)
		resource, group, _ := strings.Cut(key.Resource, ".")
		objects = append(objects, u)
		refs = append(refs, Ref{Group: group, Kind: u.GetKind(), Resource: resource, Namespace: key.Namespace,
			Name: key.Name})
	}
	all := map[Ref][][]byte{}
	for i, u := range objects {
		withoutAllocated(u)
		data, err := json.Marshal(n.normal(u.Object))
		if err != nil {
			return nil, err
		}
		refs[i].Name = n.text(refs[i].Name)
		all[refs[i]] = append(all[refs[i]], data)
	}
	for _, same := range all {
		slices.SortFunc(same, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
	}
	return all, nil
}

func compareKeys(a, b store.Key) int {
	return strings.Compare(a.Resource+"/"+a.Namespace+"/"+a.Name, b.Resource+"/"+b.Namespace+"/"+b.Name)
}

// allocated lists fields whose values the server, a scheduler or a kubelet chooses freely, by kind.
// "*" means all items of a list or all fields of a map.
var allocated = map[string][][]string{
	"Pod": {
		{"status", "podIP"}, {"status", "podIPs"}, {"status", "hostIP"}, {"status", "hostIPs"},
		{"status", "containerStatuses", "*", "containerID"},
		{"status", "containerStatuses", "*", "state", "*", "containerID"},
		{"status", "containerStatuses", "*", "lastState", "*", "containerID"},
		{"status", "initContainerStatuses", "*", "containerID"},
		{"status", "initContainerStatuses", "*", "state", "*", "containerID"},
	},
	"Service": {{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"},
		{"spec", "ports", "*", "nodePort"}},
}

func withoutAllocated(u *unstructured.Unstructured) {
	for _, path := range allocated[u.GetKind()] {
		remove(u.Object, path)
	}
}

// remove removes the field at a path.
func remove(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		switch {
		case path[0] == "*":
			for _, member := range v {
				remove(member, path[1:])
			}
		case len(path) == 1:
			delete(v, path[0])
		default:
			remove(v[path[0]], path[1:])
		}
	case []any:
		if path[0] == "*" {
			for _, item := range v {
				remove(item, path[1:])
			}
		}
	}
}

// tokenVolume matches the generated name of the volume with a service account's token.
var tokenVolume = regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`)

// names replaces random identifiers and times in the objects that a run has created.
type names struct {
	before    uint64
	began     time.Time // later times come from the run
	uids      map[types.UID]string
	generated map[string]string
}

func (n *names) learn(u *unstructured.Unstructured, obj *store.Object) {
	if obj.Created <= n.before {
		return
	}
	if prefix := u.GetGenerateName(); prefix != "" && strings.HasPrefix(u.GetName(), prefix) {
		n.generated[u.GetName()] = prefix + "*"
	}
	n.uids[u.GetUID()] = "(uid)"
}

func (n *names) normal(obj map[string]any) map[string]any {
	out, _ := n.value(obj).(map[string]any)
	meta, _ := out["metadata"].(map[string]any)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields",
		"selfLink"} {
		delete(meta, field)
	}
	return out
}

func (n *names) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = n.value(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = n.value(element)
		}
		return out
	case string:
		return n.text(v)
	}
	return v
}

func (n *names) text(s string) string {
	if name, ok := n.uids[types.UID(s)]; ok {
		return name
	}
	if generated, ok := n.generated[s]; ok {
		return generated
	}
	if tokenVolume.MatchString(s) {
		return "kube-api-access-*"
	}
	const shortest = len("2006-01-02T15:04:05Z")
	if len(s) >= shortest && s[4] == '-' {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil && !t.Before(n.began) {
			return "(a time in the run)"
		}
	}
	return s
}

package explore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
)

// State contains the objects that a run has changed, without values that differ between equal runs:
// resource versions, UIDs, times, generated parts of names, and managedFields.
type State struct {
	// objects are lists, because objects with generated names share a name. The list of a deleted
	// object of the prepared state is empty.
	objects map[string][]map[string]any
	// prepared has the objects of the prepared state that the run has changed, as they were before.
	prepared map[string][]map[string]any
}

// names replaces random identifiers by descriptions of the objects that they identify.
type names struct {
	uids      map[types.UID]string
	generated map[string]string // NAME → PREFIX*
	index     nameIndex         // of the keys of generated
	periodic  *periodic         // the writes whose numbers do not matter; nil for none
	random    []randomName      // the names with a random part that operators choose
	began     time.Time         // when the run began
}

// learn remembers how an object is described: by its kind, and by its name without the parts that
// differ between equal runs. A name may contain the name of an owner, as those of Pods contain the
// name of their ReplicaSet with the hash of its template; so owners are learned first.
func (n *names) learn(obj *unstructured.Unstructured) {
	name := n.withoutHash(obj, n.masked(withoutRandom(obj.GetName(), obj.GetGenerateName())))
	name = n.withoutRandomPart(n.withoutTimes(name))
	for _, owner := range obj.GetOwnerReferences() {
		name = withoutBegin(name, owner.UID)
		if generated, ok := n.generated[owner.Name]; ok {
			name = strings.ReplaceAll(name, owner.Name, generated)
		}
	}
	n.uids[obj.GetUID()] = obj.GetKind() + " " + qualified(obj.GetNamespace(), name)
	if obj.GetKind() == "IPAddress" {
		name = "IP*" // the server has chosen a free address for a Service
	}
	if name != obj.GetName() {
		n.generated[obj.GetName()] = name
	}
}

// hashLabels are the labels with which Kubernetes' controllers mark the objects of a template, by
// the kind of the object that has the hash in its name.
var hashLabels = map[string]string{
	"ReplicaSet":         "pod-template-hash",
	"ControllerRevision": "controller.kubernetes.io/hash",
}

// withoutHash replaces the hash of a template in the name of an object. It depends on all values of
// the template, so also on times, and on what another party adds to the template.
func (n *names) withoutHash(obj *unstructured.Unstructured, name string) string {
	hash := obj.GetLabels()[hashLabels[obj.GetKind()]]
	before, ok := strings.CutSuffix(name, "-"+hash)
	if !ok || hash == "" {
		return name
	}
	n.generated[hash] = "*"
	return before + "-*"
}

// masked replaces UIDs in a name by *, because operators put the UIDs of owners into names. It also
// replaces the beginnings of the UIDs of the run's objects.
func (n *names) masked(name string) string {
	name = uidForm.ReplaceAllString(name, "*")
	for uid := range n.uids {
		name = withoutBegin(name, uid)
	}
	return name
}

// withoutBegin replaces the first eight digits of a UID in a name by *.
func withoutBegin(name string, uid types.UID) string {
	begin, _, ok := strings.Cut(string(uid), "-")
	if !ok || len(begin) != 8 {
		return name
	}
	return strings.ReplaceAll(name, begin, "*")
}

func metaOf(obj *unstructured.Unstructured) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), GenerateName: obj.GetGenerateName()}
}

// rolloutNumber is the annotation in which Kubernetes counts the rollouts of a Deployment.
const rolloutNumber = "deployment.kubernetes.io/revision"

// isPast reports whether Kubernetes' controllers keep an object only as the record of a former
// template. How many there are depends on the way to a state, not on the state.
func isPast(obj *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return false
	}
	switch obj.GetKind() {
	case "ControllerRevision":
		return slices.Contains(workloads, owner.Kind)
	case "ReplicaSet":
		replicas, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		return owner.Kind == "Deployment" && found && replicas == 0
	}
	return false
}

// normal returns the content of an object without the values that differ between equal runs.
func (n *names) normal(obj *unstructured.Unstructured) map[string]any {
	generation := obj.GetGeneration()
	content, _ := n.value(obj.Object, generation).(map[string]any)
	meta, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation",
		"selfLink"} {
		delete(meta, field)
	}
	// Whether a slice of endpoints has the first annotation depends on how many changes of Pods
	// Kubernetes' controller has collected. The others count the rollouts of a Deployment.
	if annotations, _ := meta["annotations"].(map[string]any); annotations != nil {
		for _, name := range []string{corev1.EndpointsLastChangeTriggerTime, rolloutNumber,
			rolloutNumber + "-history"} {
			delete(annotations, name)
		}
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if obj.GetKind() == "Job" {
		withoutOwnNames(meta)
	}
	n.periodic.hide(kindOf(obj), content)
	withoutMutation(content)
	if _, ok := meta["deletionTimestamp"]; ok {
		meta["deletionTimestamp"] = "set"
	}
	if kind := obj.GetKind(); allocated[kind] != nil {
		hideAllocated(kind, content)
	}
	return content
}

// ownNames are the labels with the name and the UID of a Job, which Kubernetes adds to its
// template. A Job without labels gets those of its template: with these, unless admission changes
// the Job.
var ownNames = []string{batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid"}

func withoutOwnNames(meta map[string]any) {
	labels, _ := meta["labels"].(map[string]any)
	for _, name := range ownNames {
		if delete(labels, name); len(labels) == 0 {
			delete(meta, "labels")
		}
	}
}

func (n *names) value(v any, generation int64) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			if observed, ok := member.(int64); ok && key == "observedGeneration" {
				out[key] = relation(observed, generation)
				continue
			}
			out[n.text(key)] = n.value(member, generation)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = n.value(element, generation)
		}
		return out
	case string:
		return n.text(v)
	case int64:
		if n.isUnixNumber(v, units[1:], lateValues) {
			return "a time"
		}
	}
	return v
}

func relation(observed, generation int64) string {
	switch {
	case observed == generation:
		return "current"
	case observed < generation:
		return "behind"
	}
	return "ahead"
}

// uidForm is the form of UIDs.
var uidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// timeForm is the form of times in texts.
var timeForm = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)

// text replaces UIDs, times and generated names.
func (n *names) text(s string) string {
	if name, ok := n.uids[types.UID(s)]; ok {
		return "uid of " + name
	}
	if generated, ok := n.generated[s]; ok {
		return generated
	}
	if len(s) >= len("2006-01-02T15:04:05Z") && s[4:5] == "-" {
		if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return "a time"
		}
	}
	if n.isTime(s) {
		return "a time"
	}
	if tokenVolume.MatchString(s) {
		return "kube-api-access-*"
	}
	s = uidForm.ReplaceAllStringFunc(s, func(id string) string {
		if name, ok := n.uids[types.UID(id)]; ok {
			return "uid of " + name
		}
		return id
	})
	if len(s) > len("2006-01-02T15:04:05Z") && strings.Contains(s, "T") && strings.Contains(s, ":") {
		s = timeForm.ReplaceAllString(s, "a time")
	}
	return n.replaceGenerated(s)
}

// replaceGenerated replaces generated names in a text. Where several begin, the longest one counts,
// because a name may contain another one: that of a Pod contains the hash of its template.
func (n *names) replaceGenerated(s string) string {
	n.index.update(n.generated)
	return n.index.replace(s, n.generated)
}

// nameIndex finds the names of a map in texts. Runs have many texts and may have hundreds of names,
// but few lengths of names.
type nameIndex struct {
	size int // of the map
	// pairs has a bit for each of the first two bytes of the names. lengths has the lengths of the
	// names by their first four bytes, longer ones first.
	pairs   [1 << 10]uint64
	lengths map[[4]byte][]int
	short   []string // the names of fewer bytes
}

// update takes the names of a map, from which none was removed.
func (x *nameIndex) update(names map[string]string) {
	if x.size == len(names) {
		return
	}
	x.size, x.lengths, x.short = len(names), map[[4]byte][]int{}, nil
	for name := range names {
		if len(name) < 4 {
			x.short = append(x.short, name)
			continue
		}
		begin := [4]byte([]byte(name[:4]))
		if !slices.Contains(x.lengths[begin], len(name)) {
			x.lengths[begin] = append(x.lengths[begin], len(name))
		}
		pair := uint(name[0])<<8 | uint(name[1])
		x.pairs[pair/64] |= 1 << (pair % 64)
	}
	for _, lengths := range x.lengths {
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
	}
	slices.Sort(x.short)
}

// replace replaces the names in a text.
func (x *nameIndex) replace(s string, names map[string]string) string {
	var b strings.Builder
	rest := 0
	for i := 0; i+4 <= len(s); i++ {
		pair := uint(s[i])<<8 | uint(s[i+1])
		if x.pairs[pair/64]&(1<<(pair%64)) == 0 {
			continue
		}
		for _, length := range x.lengths[[4]byte{s[i], s[i+1], s[i+2], s[i+3]}] {
			if i+length > len(s) {
				continue
			}
			if by, ok := names[s[i:i+length]]; ok {
				b.WriteString(s[rest:i])
				b.WriteString(by)
				rest = i + length
				i = rest - 1
				break
			}
		}
	}
	if rest > 0 {
		s = b.String() + s[rest:]
	}
	for _, name := range x.short {
		s = strings.ReplaceAll(s, name, names[name])
	}
	return s
}

// decode reads a stored object.
func decode(o *store.Object) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(o.Data); err != nil {
		return nil, fmt.Errorf("decode %s %s/%s: %w", o.Key.Resource, o.Key.Namespace, o.Key.Name, err)
	}
	return obj, nil
}

// digest returns a hash of a value of JSON types.
func digest(v any) [sha256.Size]byte {
	data, err := json.Marshal(v) // sorts the keys
	if err != nil {
		// cannot happen: the value was decoded from JSON
		panic(fmt.Sprintf("explore: encode: %v", err))
	}
	return sha256.Sum256(data)
}

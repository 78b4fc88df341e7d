package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/internal/randomtest"
	"kelson.dev/operator/client"
	"kelson.dev/operator/client/strategic"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// twins sends the same calls to two namespaces of one server: to one with our client, to the other
// with controller-runtime's.
type twins struct {
	*rand.Rand
	ours   client.Client
	theirs crclient.Client
	watch  crclient.WithWatch // theirs, without a field owner
	boats  schema.GroupVersionKind
	ns     [2]string // ours, theirs
	steps  []string
	ends   map[string]int // number of successful and failed calls of each kind
}

// A random series of calls has the same results, errors and effects with our client as with
// controller-runtime's. docs/guides/coming-from-controller-runtime.md ("The clients, call by call")
// lists the differences, with reasons.
func TestClientDifferential(t *testing.T) {
	cfg := rest.CopyConfig(apiserver.For(t))
	cfg.QPS = -1
	group := "boat" + time.Now().Format("150405") + ".kelson.dev"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Boat"}
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(gvk, &boat{})
	scheme.AddKnownTypeWithName(gvk.GroupVersion().WithKind("BoatList"), &boatList{})
	metav1.AddToGroupVersion(scheme, gvk.GroupVersion())
	ours, err := client.New(client.Config{REST: cfg, Scheme: scheme, FieldOwner: "tester"})
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(boatCRD, "GROUP", group)), &crd.Object))
	must(t, ours.Create(t.Context(), crd))
	t.Cleanup(func() { _ = ours.Delete(context.Background(), crd) })
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) { // until the kind is served
		if _, err := client.List[boat](t.Context(), ours); err == nil {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	watches, err := crclient.NewWithWatch(cfg, crclient.Options{Scheme: scheme})
	must(t, err)
	theirs := crclient.WithFieldOwner(watches, "tester")
	seed, rounds, ends := randomtest.Seed(t), 8, map[string]int{}
	if n, err := strconv.Atoi(os.Getenv("KELSON_FAULTS")); err == nil {
		rounds *= n
	}
	for round := range rounds {
		w := &twins{Rand: rand.New(rand.NewPCG(seed, uint64(round))), ours: ours, theirs: theirs, watch: watches,
			boats: gvk, ends: ends}
		for n, who := range []string{"ours-", "theirs-"} {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: who}}
			must(t, ours.Create(t.Context(), ns))
			t.Cleanup(func() { _ = ours.Delete(context.Background(), ns) })
			w.ns[n] = ns.Name
		}
		for range 120 {
			w.step(t)
			if t.Failed() {
				t.Fatalf("KELSON_SEED=%d, round %d:\n%s", seed, round,
					strings.Join(w.steps[max(0, len(w.steps)-6):], "\n"))
			}
		}
	}
	for _, call := range []string{"create", "get", "list", "update", "patch", "delete", "status", "apply", "scale"} {
		if ends[call+" true"] == 0 || ends[call+" false"] == 0 {
			t.Errorf("%s succeeded %d times and failed %d times: too few for this test", call, ends[call+" true"],
				ends[call+" false"])
		}
	}
	for _, call := range []string{"watch", "pages", "token"} {
		if ends[call+" true"] == 0 {
			t.Errorf("%s never succeeded: too little for this test", call)
		}
	}
	t.Log(ends)
}

// calls has one call of each client, and the object or list that it fills.
type calls struct {
	what         string
	ours, theirs func(ctx context.Context, into runtime.Object) error
	into         [2]runtime.Object
}

func (w *twins) step(t *testing.T) {
	s, name, seed := pick(w.Rand, shapes...), pick(w.Rand, boatNames...), w.Uint64()
	obj := [2]client.Object{w.object(s, w.ns[0], name), w.object(s, w.ns[1], name)}
	c := calls{into: [2]runtime.Object{obj[0], obj[1]}}
	switch w.IntN(15) {
	case 0, 1:
		if s.form == metadata {
			return // both clients refuse to send it
		}
		c = w.create(c, obj, seed)
	case 2:
		c = w.get(c, obj)
	case 3, 4:
		c = w.lists(s)
	case 5:
		if s.form == metadata {
			return
		}
		c = w.update(t, c, s, obj, seed)
	case 6, 7:
		c = w.patch(t, c, s, obj, seed)
	case 8:
		c = w.deletes(t, c, obj)
	case 9:
		c = w.deletesAll(c, s, obj)
	case 10, 11:
		if s.form == metadata {
			return
		}
		c = w.apply(c, s, obj, seed)
	case 12:
		c = w.watches(t, s, seed)
	case 13:
		c = w.scale(c, seed)
	case 14:
		if w.IntN(2) == 0 {
			c = w.pages(s)
		} else {
			c = w.token(t)
		}
	}
	w.steps = append(w.steps, fmt.Sprintf("%s %T %s", c.what, c.into[0], name))
	err := [2]error{c.ours(t.Context(), c.into[0]), c.theirs(t.Context(), c.into[1])}
	call, _, _ := strings.Cut(c.what, " ")
	w.ends[fmt.Sprint(call, " ", err[0] == nil)]++
	if a, b := w.failure(0, err[0]), w.failure(1, err[1]); a != b {
		t.Errorf("ours ends with\n%s, theirs with\n%s", a, b)
	}
	if err[0] == nil && err[1] == nil {
		if a, b := w.normal(c.into[0]), w.normal(c.into[1]); !reflect.DeepEqual(a, b) {
			t.Errorf("ours is\n%v, theirs\n%v", a, b)
		}
	}
	if a, b := w.state(t, 0), w.state(t, 1); !reflect.DeepEqual(a, b) {
		t.Errorf("the objects are\n%v with ours and\n%v with theirs", a, b)
	}
}

var (
	uids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	numbers = regexp.MustCompile(`\b[0-9]+\b`)
)

// failure returns the text of an error, without names and numbers that differ between the twins.
func (w *twins) failure(who int, err error) string {
	if err == nil {
		return "nothing"
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "an error of the client's own"
	}
	message, code := status.Status().Message, status.Status().Code
	message = numbers.ReplaceAllString(uids.ReplaceAllString(strings.ReplaceAll(message, w.ns[who], "NS"), "UID"), "N")
	return fmt.Sprint(code, " ", apierrors.ReasonForError(err), " ", message)
}

// normal returns an object or list as a tree, without the parts that always differ.
func (w *twins) normal(obj runtime.Object) any {
	var object map[string]any
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &object)
	}
	if err != nil {
		panic(err)
	}
	_, dynamic := obj.(runtime.Unstructured)
	strip(object, dynamic)
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			strip(item.(map[string]any), dynamic)
		}
	}
	return object
}

func strip(object map[string]any, dynamic bool) {
	if !dynamic { // our client sets the kind of every object
		delete(object, "kind")
		delete(object, "apiVersion")
	}
	m, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "continue"} {
		if value, ok := m[name]; ok {
			m[name] = value != ""
		}
	}
	delete(m, "namespace")
	entries, _ := m["managedFields"].([]any)
	for _, e := range entries {
		delete(e.(map[string]any), "time")
	}
	slices.SortFunc(entries, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// state returns all objects of a namespace, after the garbage collector has finished.
func (w *twins) state(t *testing.T, who int) any {
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		all, settled := []any{}, true
		for _, s := range []shape{{"ConfigMap", dynamic}, {"Boat", dynamic}, {"Ingress", dynamic},
			{"PodTemplate", dynamic}} {
			list := w.list(s).(*unstructured.UnstructuredList)
			must(t, w.ours.List(t.Context(), list, client.InNamespace(w.ns[who])))
			for i := range list.Items {
				u := &list.Items[i]
				if u.GetName() == "kube-root-ca.crt" { // created by the server, asynchronously
					continue
				}
				settled = settled && !slices.ContainsFunc(u.GetFinalizers(), func(f string) bool {
					return f != "kelson.dev/held"
				})
				all = append(all, w.normal(u))
			}
		}
		if settled || time.Since(begin) > time.Minute {
			return all
		}
	}
}

// writes are options of writes for both clients.
func (w *twins) writes() (ours []client.WriteOption, theirs []any, what string) {
	for range w.IntN(4) {
		switch w.IntN(5) {
		case 0:
			if w.IntN(3) == 0 {
				ours, theirs, what = append(ours, client.DryRunAll), append(theirs, crclient.DryRunAll), what+" dry"
			}
		case 1:
			owner := pick(w.Rand, "me", "you")
			ours, theirs, what = append(ours, client.FieldOwner(owner)), append(theirs, crclient.FieldOwner(owner)),
				what+" by "+owner
		case 2:
			how := pick(w.Rand, "Strict", "Warn", "Ignore")
			ours, theirs, what = append(ours, client.FieldValidation(how)),
				append(theirs, crclient.FieldValidation(how)), what+" "+how
		case 3:
			ours, theirs, what = append(ours, client.WriteOptions{FieldOwner: "struct"}),
				append(theirs, structOptions{"struct", ""}), what+" struct"
		case 4:
			ours, theirs, what = append(ours, client.WriteOptions{FieldValidation: "Ignore"}),
				append(theirs, structOptions{"", "Ignore"}), what+" struct of validation"
		}
	}
	return ours, theirs, what
}

type structOptions struct{ owner, validation string }

func (s structOptions) ApplyToCreate(o *crclient.CreateOptions) {
	(&crclient.CreateOptions{FieldManager: s.owner, FieldValidation: s.validation}).ApplyToCreate(o)
}
func (s structOptions) ApplyToUpdate(o *crclient.UpdateOptions) {
	(&crclient.UpdateOptions{FieldManager: s.owner, FieldValidation: s.validation}).ApplyToUpdate(o)
}
func (s structOptions) ApplyToPatch(o *crclient.PatchOptions) {
	(&crclient.PatchOptions{FieldManager: s.owner, FieldValidation: s.validation}).ApplyToPatch(o)
}
func (s structOptions) ApplyToSubResourceUpdate(o *crclient.SubResourceUpdateOptions) {
	s.ApplyToUpdate(&o.UpdateOptions)
}
func (s structOptions) ApplyToSubResourcePatch(o *crclient.SubResourcePatchOptions) {
	s.ApplyToPatch(&o.PatchOptions)
}

func as[O any](opts []any) []O {
	all := make([]O, len(opts))
	for i, o := range opts {
		all[i] = o.(O)
	}
	return all
}

func (w *twins) create(c calls, obj [2]client.Object, seed uint64) calls {
	ours, theirs, what := w.writes()
	for _, o := range obj {
		w.change(seed, o)
	}
	c.what = "create" + what
	c.ours = func(ctx context.Context, _ runtime.Object) error { return w.ours.Create(ctx, obj[0], ours...) }
	c.theirs = func(ctx context.Context, _ runtime.Object) error {
		return w.theirs.Create(ctx, obj[1], as[crclient.CreateOption](theirs)...)
	}
	return c
}

// selects are options that select objects. Later options of controller-runtime replace earlier
// ones, whereas all of ours must match, so there is one for labels and one for fields.
func (w *twins) selects(s shape) (list []client.ListOption, crlist []crclient.ListOption, what string) {
	both := func(o client.ListOption, cr crclient.ListOption) {
		list, crlist, what = append(list, o), append(crlist, cr), what+fmt.Sprintf(" %T%v", o, o)
	}
	in := w.IntN(3)
	if in == 0 {
		both(client.InNamespace(w.ns[0]), crclient.InNamespace(w.ns[1]))
	}
	var selector labels.Selector
	switch w.IntN(6) {
	case 0:
		m := map[string]string{pick(w.Rand, "color", "size"): pick(w.Rand, "red", "blue", "")}
		both(client.MatchingLabels(m), crclient.MatchingLabels(m))
		if w.IntN(2) == 0 { // these also add up in controller-runtime
			m := map[string]string{"size": pick(w.Rand, "red", "blue", "not valid!")}
			both(client.MatchingLabels(m), crclient.MatchingLabels(m))
		}
	case 1:
		selector, _ = labels.Parse(pick(w.Rand, "color", "!color", "color in (red,blue)", "size notin (red)",
			"color!=red", ""))
		both(client.MatchingSelector{Selector: selector}, crclient.MatchingLabelsSelector{Selector: selector})
	case 2:
		selector, _ = labels.Parse(pick(w.Rand, "color", "!color", "size notin (red)"))
		both(client.ListOptions{Labels: selector}, &crclient.ListOptions{LabelSelector: selector})
	}
	field, value := pick(w.Rand, "metadata.name", "metadata.name", "spec.sails", "spec.fast", "spec.nothing"),
		pick(w.Rand, "a", "0", "1", "false", "true", "")
	switch w.IntN(5) {
	case 0:
		both(client.MatchingFields{field: value}, crclient.MatchingFields{field: value})
	case 1:
		f := fields.OneTermNotEqualSelector(field, value)
		both(client.ListOptions{Fields: f}, &crclient.ListOptions{FieldSelector: f})
	}
	if in == 1 {
		both(client.ListOptions{Namespace: w.ns[0]}, &crclient.ListOptions{Namespace: w.ns[1]})
	}
	if w.IntN(4) == 0 {
		both(client.ListOptions{}, &crclient.ListOptions{})
	}
	if in == 2 {
		both(client.InNamespace(w.ns[0]), crclient.InNamespace(w.ns[1]))
	}
	return list, crlist, what
}

func (w *twins) lists(s shape) calls {
	list, crlist, what := w.selects(s)
	if w.IntN(3) == 0 {
		list, crlist, what = append(list, client.Limit(1)), append(crlist, crclient.Limit(1)), what+" limit"
	} else if w.IntN(3) == 0 {
		list, crlist, what = append(list, client.ListOptions{Limit: 2}),
			append(crlist, &crclient.ListOptions{Limit: 2}), what+" struct of limit"
	}
	return calls{
		what: "list" + what, into: [2]runtime.Object{w.list(s), w.list(s)},
		ours: func(ctx context.Context, into runtime.Object) error {
			return w.withoutOthers(into, w.ours.List(ctx, into.(client.ObjectList), list...))
		},
		theirs: func(ctx context.Context, into runtime.Object) error {
			return w.withoutOthers(into, w.theirs.List(ctx, into.(client.ObjectList), crlist...))
		},
	}
}

// withoutOthers blanks the objects that the server creates in each namespace asynchronously.
func (w *twins) withoutOthers(list runtime.Object, err error) error {
	drop := func(name string) bool { return name == "kube-root-ca.crt" }
	switch l := list.(type) {
	case *corev1.ConfigMapList:
		l.Items = slices.DeleteFunc(l.Items, func(o corev1.ConfigMap) bool { return drop(o.Name) })
	case *metav1.PartialObjectMetadataList:
		l.Items = slices.DeleteFunc(l.Items, func(o metav1.PartialObjectMetadata) bool { return drop(o.Name) })
	case *unstructured.UnstructuredList:
		l.Items = slices.DeleteFunc(l.Items, func(o unstructured.Unstructured) bool { return drop(o.GetName()) })
	}
	return err
}

// read reads the object in each of the two namespaces. It returns false if one does not exist.
func (w *twins) read(t *testing.T, obj [2]client.Object) bool {
	for _, o := range obj {
		if err := w.ours.Get(t.Context(), client.KeyOf(o), o); apierrors.IsNotFound(err) {
			return false
		} else {
			must(t, err)
		}
	}
	return true
}

func (w *twins) update(t *testing.T, c calls, s shape, obj [2]client.Object, seed uint64) calls {
	ours, theirs, what := w.writes()
	there, version := w.read(t, obj), w.IntN(5)
	for n, o := range obj {
		w.change(seed, o)
		switch {
		case version == 0:
			o.SetResourceVersion("")
		case version == 1 && there:
			o.SetResourceVersion("1") // an old version
		}
		c.into[n] = o
	}
	c.what = fmt.Sprint("update", what, " version ", version, " there ", there)
	if w.IntN(3) == 0 && s.hasStatus() {
		c.what = "status " + c.what
		c.ours = func(ctx context.Context, _ runtime.Object) error {
			return w.ours.Subresource("status").Update(ctx, obj[0], nil, ours...)
		}
		c.theirs = func(ctx context.Context, _ runtime.Object) error {
			return w.theirs.Status().Update(ctx, obj[1], as[crclient.SubResourceUpdateOption](theirs)...)
		}
		return c
	}
	c.ours = func(ctx context.Context, _ runtime.Object) error { return w.ours.Update(ctx, obj[0], ours...) }
	c.theirs = func(ctx context.Context, _ runtime.Object) error {
		return w.theirs.Update(ctx, obj[1], as[crclient.UpdateOption](theirs)...)
	}
	return c
}

func (w *twins) patch(t *testing.T, c calls, s shape, obj [2]client.Object, seed uint64) calls {
	ours, theirs, what := w.writes()
	there := w.read(t, obj)
	var p [2]struct {
		ours   client.Patch
		theirs crclient.Patch
	}
	raw := func(kind types.PatchType, data string) string {
		for n := range p {
			p[n].ours, p[n].theirs = client.RawPatch(kind, []byte(data)), crclient.RawPatch(kind, []byte(data))
		}
		return string(kind) + " " + data
	}
	kind, strategicKind := w.IntN(7), s.form == typed && s.kind != "Boat"
	switch {
	case kind == 0:
		what += raw(types.MergePatchType, pick(w.Rand, `{"metadata":{"labels":{"color":null,"size":"blue"}}}`,
			`{"spec":{"crew":[{"name":"z"}],"sails":null}}`, `{"data":{"k":null}}`, `{`, `{"spec":{"sails":9}}`, `[]`))
	case kind == 1:
		what += raw(types.JSONPatchType, pick(w.Rand,
			`[{"op":"add","path":"/metadata/labels","value":{"color":"red"}}]`,
			`[{"op":"remove","path":"/metadata/labels/color"}]`, `[{"op":"test","path":"/metadata/name","value":"a"}]`,
			`{}`))
	case kind == 2:
		what += raw(types.StrategicMergePatchType, `{"metadata":{"labels":{"size":"red"}}}`)
	case kind == 3:
		apply, err := json.Marshal(w.document(s, seed, obj[0].GetName()))
		must(t, err)
		what += raw(types.ApplyPatchType, string(apply))
		// The default of controller-runtime is not to force, and ours is to force.
		if w.IntN(2) == 0 {
			ours, theirs = append(ours, client.ForceOwnership), append(theirs, crclient.ForceOwnership)
		} else {
			ours = append(ours, client.Unforced)
		}
	default:
		lock, stale := w.IntN(2) == 0, w.IntN(3) == 0 && there
		what += fmt.Sprint(" from ", lock, stale)
		for n := range p {
			from := obj[n].DeepCopyObject().(client.Object)
			if lock && stale {
				from.SetResourceVersion("1")
			}
			w.change(seed, obj[n])
			switch {
			case kind == 4 && strategicKind && lock:
				p[n].ours, p[n].theirs = strategic.MergeFrom(from, client.OptimisticLock),
					crclient.StrategicMergeFrom(from, crclient.MergeFromWithOptimisticLock{})
			case kind == 4 && strategicKind:
				p[n].ours, p[n].theirs = strategic.MergeFrom(from), crclient.StrategicMergeFrom(from)
			case lock:
				p[n].ours, p[n].theirs = client.MergeFrom(from, client.OptimisticLock),
					crclient.MergeFromWithOptions(from, crclient.MergeFromWithOptimisticLock{})
			default:
				p[n].ours, p[n].theirs = client.MergeFrom(from), crclient.MergeFrom(from)
			}
			a, err := p[n].ours.Data(obj[n])
			b, err2 := p[n].theirs.Data(obj[n])
			var x, y any
			if (err == nil) != (err2 == nil) ||
				err == nil && (json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil ||
					!reflect.DeepEqual(x, y)) {
				t.Errorf("our patch is\n%s %v, theirs\n%s %v", a, err, b, err2)
			}
		}
	}
	c.what = fmt.Sprint("patch ", what, " there ", there)
	if w.IntN(4) == 0 && s.hasStatus() {
		c.what = "status " + c.what
		c.ours = func(ctx context.Context, _ runtime.Object) error {
			return w.ours.Subresource("status").Patch(ctx, obj[0], p[0].ours, ours...)
		}
		c.theirs = func(ctx context.Context, _ runtime.Object) error {
			return w.theirs.Status().Patch(ctx, obj[1], p[1].theirs, as[crclient.SubResourcePatchOption](theirs)...)
		}
		return c
	}
	c.ours = func(ctx context.Context, _ runtime.Object) error {
		return w.ours.Patch(ctx, obj[0], p[0].ours, ours...)
	}
	c.theirs = func(ctx context.Context, _ runtime.Object) error {
		return w.theirs.Patch(ctx, obj[1], p[1].theirs, as[crclient.PatchOption](theirs)...)
	}
	return c
}

func (w *twins) deleteOptions() (ours []any, theirs []any, what string) {
	both := func(o, cr any) {
		ours, theirs, what = append(ours, o), append(theirs, cr), what+fmt.Sprintf(" %T%v", o, o)
	}
	for range w.IntN(4) {
		switch w.IntN(5) {
		case 0:
			both(client.DryRunAll, crclient.DryRunAll)
		case 1:
			both(client.GracePeriodSeconds(0), crclient.GracePeriodSeconds(0))
		case 2:
			p := pick(w.Rand, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
				metav1.DeletePropagationOrphan, "Nonsense")
			both(client.PropagationPolicy(p), crclient.PropagationPolicy(p))
		case 3:
			p := metav1.DeletePropagationBackground
			both(client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{PropagationPolicy: &p}},
				&crclient.DeleteAllOfOptions{DeleteOptions: crclient.DeleteOptions{PropagationPolicy: &p}})
		case 4:
			both(client.DeleteAllOfOptions{}, &crclient.DeleteAllOfOptions{})
		}
	}
	return ours, theirs, what
}

func (w *twins) deletes(t *testing.T, c calls, obj [2]client.Object) calls {
	mine, yours, what := w.deleteOptions()
	var ours [2][]client.DeleteOption
	var theirs [2][]crclient.DeleteOption
	there := w.read(t, obj)
	for n := range obj {
		for i := range mine {
			// as for a single delete
			if o, ok := mine[i].(client.DeleteAllOfOptions); ok {
				ours[n], theirs[n] = append(ours[n], o.DeleteOptions),
					append(theirs[n], &yours[i].(*crclient.DeleteAllOfOptions).DeleteOptions)
				continue
			}
			ours[n], theirs[n] = append(ours[n], mine[i].(client.DeleteOption)),
				append(theirs[n], yours[i].(crclient.DeleteOption))
		}
	}
	if there {
		switch w.IntN(4) {
		case 0:
			for n, o := range obj {
				uid, version := o.GetUID(), o.GetResourceVersion()
				ours[n] = append(ours[n], client.Preconditions{UID: uid, ResourceVersion: version})
				theirs[n] = append(theirs[n], crclient.Preconditions{UID: &uid, ResourceVersion: &version})
			}
			what += " preconditions"
		case 1:
			uid := types.UID("another")
			for n := range obj {
				ours[n], theirs[n] = append(ours[n], client.Preconditions{UID: uid}),
					append(theirs[n], crclient.Preconditions{UID: &uid})
			}
			what += " wrong precondition"
		}
	}
	c.what = "delete" + what
	c.ours = func(ctx context.Context, _ runtime.Object) error { return w.ours.Delete(ctx, obj[0], ours[0]...) }
	c.theirs = func(ctx context.Context, _ runtime.Object) error { return w.theirs.Delete(ctx, obj[1], theirs[1]...) }
	return c
}

func (w *twins) deletesAll(c calls, s shape, obj [2]client.Object) calls {
	list, crlist, what := w.selects(s)
	ours, theirs := []client.DeleteAllOfOption{}, []crclient.DeleteAllOfOption{}
	for i, o := range list {
		if l, ok := o.(client.ListOptions); ok {
			ours = append(ours, client.DeleteAllOfOptions{ListOptions: l})
			theirs = append(theirs, &crclient.DeleteAllOfOptions{ListOptions: *crlist[i].(*crclient.ListOptions)})
			continue
		}
		ours, theirs = append(ours, o.(client.DeleteAllOfOption)),
			append(theirs, crlist[i].(crclient.DeleteAllOfOption))
	}
	mine, yours, more := w.deleteOptions()
	for i := range mine {
		ours, theirs = append(ours, mine[i].(client.DeleteAllOfOption)),
			append(theirs, yours[i].(crclient.DeleteAllOfOption))
	}
	c.what = "delete all" + what + more
	c.ours = func(ctx context.Context, _ runtime.Object) error { return w.ours.DeleteAllOf(ctx, obj[0], ours...) }
	c.theirs = func(ctx context.Context, _ runtime.Object) error { return w.theirs.DeleteAllOf(ctx, obj[1], theirs...) }
	return c
}

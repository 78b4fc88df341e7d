package builtin

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/secret"
)

type warningTexts []string

func (h *warningTexts) AddWarning(_, text string) { *h = append(*h, text) }

func strategyOf(hub runtime.Object) dataStrategy {
	if _, ok := hub.(*core.Secret); ok {
		return dataStrategy{secret.Strategy}
	}
	return dataStrategy{configmap.Strategy}
}

// fastCreate reports whether the fast path accepts a new object. If so, the library must accept it
// too and not modify it.
func fastCreate(t *testing.T, ctx context.Context, hub runtime.Object) bool {
	t.Helper()
	strategy := strategyOf(hub)
	before := hub.DeepCopyObject()
	errs, done := strategy.BeforeCreate(ctx, hub)
	if !equality.Semantic.DeepEqual(hub, before) || len(errs) > 0 {
		t.Fatalf("%v, and %v becomes %v", errs, before, hub)
	}
	if !done {
		return false
	}
	var warnings warningTexts
	err := upstream.BeforeCreate(strategy.libraryStrategy, warning.WithWarningRecorder(ctx, &warnings), hub)
	if err != nil || len(warnings) > 0 || !equality.Semantic.DeepEqual(hub, before) {
		t.Fatalf("the library returns %v and the warnings %q, and changes %v to\n%v", err, warnings, before, hub)
	}
	return true
}

// fastUpdate is like fastCreate, for an update. Unlike a create, an update modifies the object.
func fastUpdate(t *testing.T, ctx context.Context, hub, old runtime.Object) bool {
	t.Helper()
	strategy := strategyOf(hub)
	next, previous := hub.DeepCopyObject(), old.DeepCopyObject()
	errs, done := strategy.BeforeUpdate(ctx, hub, old)
	if !equality.Semantic.DeepEqual(old, previous) || len(errs) > 0 ||
		!done && !equality.Semantic.DeepEqual(hub, next) {
		t.Fatalf("%v, and %v becomes %v, of %v", errs, next, hub, old)
	}
	if !done {
		return false
	}
	var warnings warningTexts
	err := upstream.BeforeUpdate(strategy.libraryStrategy, warning.WithWarningRecorder(ctx, &warnings), next, old)
	if err != nil || len(warnings) > 0 || !equality.Semantic.DeepEqual(hub, next) {
		t.Fatalf("the library returns %v and the warnings %q, and the object\n%v\nnot\n%v", err, warnings, next, hub)
	}
	return true
}

// TestFastUpdatesOfConfigMaps compares updates by the fast path with the library's.
func TestFastUpdatesOfConfigMaps(t *testing.T) {
	noNamespace := request.WithRequestInfo(t.Context(),
		&request.RequestInfo{IsResourceRequest: true, Verb: "update", APIVersion: "v1", Namespace: "default"})
	ctx := request.WithNamespace(noNamespace, "default")
	stored := soundMeta()
	stored.ResourceVersion = "7"
	given := *stored.DeepCopy()
	given.Generation, given.UID, given.CreationTimestamp, given.Labels = 9, "", metav1.Time{},
		map[string]string{"a": "b"}
	yes, no, now, zero := true, false, metav1.Now(), int64(0)
	maps := func() (next, previous *core.ConfigMap) {
		return &core.ConfigMap{ObjectMeta: *given.DeepCopy(), Data: map[string]string{"a": "x"}},
			&core.ConfigMap{ObjectMeta: *stored.DeepCopy(), Data: map[string]string{"b": ""}}
	}
	next, previous := maps()
	if !fastUpdate(t, ctx, next, previous) || next.UID != stored.UID || next.Generation != stored.Generation {
		t.Errorf("the library is used for %v", next)
	}
	a := &core.Secret{ObjectMeta: *given.DeepCopy(), Type: core.SecretTypeOpaque, Data: map[string][]byte{"a": nil}}
	b := &core.Secret{ObjectMeta: *stored.DeepCopy(), Type: core.SecretTypeOpaque, Immutable: &no}
	if !fastUpdate(t, ctx, a, b) {
		t.Errorf("the library is used for %v", a)
	}
	if b.Immutable = &yes; fastUpdate(t, ctx, a, b) {
		t.Error("the library is not used for immutable objects")
	}
	if b.Immutable, b.Type = nil, core.SecretTypeTLS; fastUpdate(t, ctx, a, b) {
		t.Error("the library is not used for another type")
	}
	for name, change := range map[string]func(next, previous *core.ConfigMap){
		"immutable":     func(_, previous *core.ConfigMap) { previous.Immutable = &yes },
		"being deleted": func(_, previous *core.ConfigMap) { previous.DeletionTimestamp = &now },
		"to be deleted": func(next, _ *core.ConfigMap) { next.DeletionTimestamp = &now },
		"with grace":    func(_, previous *core.ConfigMap) { previous.DeletionGracePeriodSeconds = &zero },
		"no revision":   func(next, _ *core.ConfigMap) { next.ResourceVersion = "" },
		"another name":  func(next, _ *core.ConfigMap) { next.Name = "two" },
		"another uid":   func(next, _ *core.ConfigMap) { next.UID = "v" },
		"no uid":        func(_, previous *core.ConfigMap) { previous.UID = "" },
		"no time":       func(_, previous *core.ConfigMap) { previous.CreationTimestamp = metav1.Time{} },
		"a label":       func(next, _ *core.ConfigMap) { next.Labels["a"] = "/" },
		"a key":         func(next, _ *core.ConfigMap) { next.Data["/"] = "" },
		"bytes":         func(next, _ *core.ConfigMap) { next.BinaryData = map[string][]byte{"a": nil} },
		"no namespace":  func(next, previous *core.ConfigMap) { next.Namespace, previous.Namespace = "", "" },
	} {
		next, previous := maps()
		if change(next, previous); fastUpdate(t, ctx, next, previous) {
			t.Errorf("%s: the library is not used", name)
		}
	}
}

func soundMeta() metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: "one.a-b", Namespace: "default", UID: "u", CreationTimestamp: metav1.Now(), Generation: 1,
		Labels:      map[string]string{"app": "web", "example.com/Part_of.x": ""},
		Annotations: map[string]string{"example.com/note": "any thing"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "s", UID: "u",
			Controller: &yes}, {APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}},
		Finalizers: []string{"example.com/f"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "op", Operation: "Apply", APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}},
	}
}

// The fast path accepts only ConfigMaps and Secrets without any special case; the library validates
// all others.
func TestFastCreatesOfConfigMaps(t *testing.T) {
	noNamespace := request.WithRequestInfo(t.Context(),
		&request.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Namespace: "default"})
	ctx := request.WithNamespace(noNamespace, "default")
	for _, hub := range []runtime.Object{
		&core.ConfigMap{ObjectMeta: soundMeta(), Data: map[string]string{"a.b_c-D": "x", ".hidden": "y"}},
		&core.Secret{ObjectMeta: soundMeta(), Data: map[string][]byte{"a": nil}, Type: core.SecretTypeOpaque},
	} {
		if !fastCreate(t, ctx, hub) {
			t.Errorf("the library is used for %v", hub)
		}
	}
	no, yes, zero := metav1.Now(), true, int64(0)
	for name, change := range map[string]func(m *metav1.ObjectMeta, data map[string]string){
		"no name":              func(m *metav1.ObjectMeta, _ map[string]string) { m.Name = "" },
		"an uppercase name":    func(m *metav1.ObjectMeta, _ map[string]string) { m.Name = "One" },
		"a name with two dots": func(m *metav1.ObjectMeta, _ map[string]string) { m.Name = "a..b" },
		"a long name":          func(m *metav1.ObjectMeta, _ map[string]string) { m.Name = strings.Repeat("a", 254) },
		"another namespace":    func(m *metav1.ObjectMeta, _ map[string]string) { m.Namespace = "other" },
		"no uid":               func(m *metav1.ObjectMeta, _ map[string]string) { m.UID = "" },
		"no time":              func(m *metav1.ObjectMeta, _ map[string]string) { m.CreationTimestamp = metav1.Time{} },
		"a generation":         func(m *metav1.ObjectMeta, _ map[string]string) { m.Generation = -1 },
		"deleted":              func(m *metav1.ObjectMeta, _ map[string]string) { m.DeletionTimestamp = &no },
		"with grace": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.DeletionGracePeriodSeconds = &zero
		},
		"a label's value": func(m *metav1.ObjectMeta, _ map[string]string) { m.Labels["app"] = "a b" },
		"a long label value": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.Labels["app"] = strings.Repeat("a", 64)
		},
		"a label's key":    func(m *metav1.ObjectMeta, _ map[string]string) { m.Labels["a/b/c"] = "" },
		"a label's domain": func(m *metav1.ObjectMeta, _ map[string]string) { m.Labels["A/b"] = "" },
		"an annotation":    func(m *metav1.ObjectMeta, _ map[string]string) { m.Annotations["-a"] = "" },
		"a large annotation": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.Annotations["a"] = strings.Repeat("a", 256<<10)
		},
		"an owner's version": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.OwnerReferences[0].APIVersion = "a/b/c"
		},
		"an owner's group": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.OwnerReferences[0].APIVersion = "a/"
		},
		"an owner's name": func(m *metav1.ObjectMeta, _ map[string]string) { m.OwnerReferences[0].Name = "" },
		"an owner's kind": func(m *metav1.ObjectMeta, _ map[string]string) { m.OwnerReferences[1].Kind = "Event" },
		"an owner's uid":  func(m *metav1.ObjectMeta, _ map[string]string) { m.OwnerReferences[1].UID = "" },
		"two controllers": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.OwnerReferences[1].Controller = &yes
		},
		"a finalizer": func(m *metav1.ObjectMeta, _ map[string]string) { m.Finalizers[0] = "/" },
		"a manager":   func(m *metav1.ObjectMeta, _ map[string]string) { m.ManagedFields[0].Manager = "a\nb" },
		"an operation": func(m *metav1.ObjectMeta, _ map[string]string) {
			m.ManagedFields[0].Operation = "Guess"
		},
		"no fieldsType":       func(m *metav1.ObjectMeta, _ map[string]string) { m.ManagedFields[0].FieldsType = "" },
		"no key":              func(_ *metav1.ObjectMeta, data map[string]string) { data[""] = "" },
		"a key with a space":  func(_ *metav1.ObjectMeta, data map[string]string) { data["a b"] = "" },
		"a key with two dots": func(_ *metav1.ObjectMeta, data map[string]string) { data["..a"] = "" },
		"a long key": func(_ *metav1.ObjectMeta, data map[string]string) {
			data[strings.Repeat("a", 254)] = ""
		},
		"too much": func(_ *metav1.ObjectMeta, data map[string]string) {
			data["a"] = strings.Repeat("a", core.MaxSecretSize+1)
		},
	} {
		hub := &core.ConfigMap{ObjectMeta: soundMeta(), Data: map[string]string{}}
		change(&hub.ObjectMeta, hub.Data)
		if fastCreate(t, ctx, hub) {
			t.Errorf("%s: the library is not used", name)
		}
		data := map[string][]byte{}
		for key, value := range hub.Data {
			data[key] = []byte(value)
		}
		if fastCreate(t, ctx, &core.Secret{ObjectMeta: hub.ObjectMeta, Data: data, Type: core.SecretTypeOpaque}) {
			t.Errorf("%s: the library is not used for a Secret", name)
		}
	}
	if fastCreate(t, ctx, &core.Secret{ObjectMeta: soundMeta(), Type: core.SecretTypeTLS}) {
		t.Error("the library is not used for a TLS Secret")
	}
	both := &core.ConfigMap{ObjectMeta: soundMeta(), Data: map[string]string{"a": ""},
		BinaryData: map[string][]byte{"a": nil}}
	if fastCreate(t, ctx, both) {
		t.Error("the library is not used for a key in data and binaryData")
	}
	if fastCreate(t, noNamespace, &core.ConfigMap{ObjectMeta: soundMeta()}) {
		t.Error("the library is not used without a namespace")
	}

	// Random strings in all fields.
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		if random.IntN(3) > 0 {
			return "a"
		}
		b := make([]byte, random.IntN(5))
		for i := range b {
			b[i] = "aZ0-_./ ä"[random.IntN(10)]
		}
		return string(b)
	}
	passed := 0
	for range 5000 {
		hub := &core.ConfigMap{ObjectMeta: soundMeta(), Data: map[string]string{word(): word()}}
		m, _ := meta.Accessor(hub)
		m.SetName(word())
		m.SetLabels(map[string]string{word(): word()})
		m.SetAnnotations(map[string]string{word(): word()})
		m.SetFinalizers([]string{word() + "/" + word()})
		hub.OwnerReferences[0].APIVersion, hub.OwnerReferences[0].Kind = word(), word()
		if fastCreate(t, ctx, hub) {
			passed++
		}
	}
	if passed < 50 {
		t.Errorf("only %d random documents are valid", passed)
	}
}

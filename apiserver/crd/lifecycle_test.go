package crd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A deleted definition stays until its instances are gone, those with finalizers included.
// Meanwhile, creates are refused whatever their content is.
func TestDeleteRemovesInstancesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		defer p.run()()
		p.do("POST", definitionsPath, widgets()).want(201)
		p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
		p.do("POST", strings.Replace(widgetsPath, "default", "other", 1), widget("b", `{"color":"green"}`)).want(201)
		held := strings.Replace(widget("c", `{"color":"green"}`), `"metadata":{`,
			`"metadata":{"finalizers":["example.com/hold"],`, 1)
		p.do("POST", widgetsPath, held).want(201)

		deleted := p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
		if !slices.Contains(conditions(deleted), "Terminating True InstanceDeletionPending") {
			t.Errorf("conditions %q", conditions(deleted))
		}
		synctest.Wait()
		now := p.do("GET", definitionsPath+"/widgets.example.com", "").want(200)
		if !slices.Contains(conditions(now), "Terminating True InstanceDeletionInProgress") {
			t.Errorf("conditions %q", conditions(now))
		}
		p.do("GET", widgetsPath+"/a", "").want(404)
		p.do("GET", widgetsPath+"/c", "").want(200)
		refused := p.do("POST", widgetsPath, widget("d", `{"color":"green"}`)).want(403)
		if !strings.Contains(refused.message(), "create not allowed while custom resource definition is terminating") {
			t.Error(refused.message())
		}
		// The definition decides before the object's content.
		p.do("POST", widgetsPath, strings.Replace(widget("d", `{"color":"green"}`), `"Widget"`, `"Gadget"`, 1)).
			want(403)
		p.do("PATCH", widgetsPath+"/d?fieldManager=m", widget("d", `{"color":"pink"}`), "Content-Type",
			"application/apply-patch+yaml").want(403)
		p.do("PATCH", widgetsPath+"/c", `{"metadata":{"finalizers":null}}`, "Content-Type",
			"application/merge-patch+json").want(200)
		synctest.Wait()
		p.do("GET", definitionsPath+"/widgets.example.com", "").want(404)
		p.do("GET", widgetsPath, "").want(404)

		// A new definition of the name has no instances.
		p.do("POST", definitionsPath, widgets()).want(201)
		items := p.do("GET", widgetsPath, "").want(200).field("items").([]any)
		assert.Equalf(t, len(items), 0, "objects are left")
	})
}

// A definition whose kind another definition already has is not served until the other definition
// is deleted.
func TestNameConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		defer p.run()()
		p.do("POST", definitionsPath, widgets()).want(201)
		rival := widgets("widgets.example.com", "gadgets.example.com", `"plural":"widgets"`, `"plural":"gadgets"`,
			`"singular":"widget"`, `"singular":"gadget"`)
		a := p.do("POST", definitionsPath, rival).want(201)
		for _, want := range []string{"NamesAccepted False ListKindConflict", "Established False NotAccepted"} {
			if got := conditions(a); !slices.Contains(got, want) {
				t.Errorf("conditions %q, want %q among them", got, want)
			}
		}
		assert.Equalf(t, a.field("status.acceptedNames.kind"), "", "accepted kind")
		if _, ok := p.registry.Current().ByName(schema.GroupResource{Group: "example.com", Resource: "gadgets"}); ok {
			t.Error("a definition whose names were refused is served")
		}
		// Once the names are free, the rival gets them.
		p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
		synctest.Wait()
		a = p.do("GET", definitionsPath+"/gadgets.example.com", "").want(200)
		if got := conditions(a); !slices.Contains(got, "Established True InitialNamesAccepted") {
			t.Errorf("conditions %q", got)
		}
		p.do("GET", "/apis/example.com/v1/gadgets", "").want(200)
	})
}

// failingStatus fails writes of the status of one object until a time, as a webhook can.
type failingStatus struct {
	resource.Objects
	name  string
	until *time.Time
}

func (f failingStatus) UpdateStatus(ctx context.Context, res *resource.Resource, namespace, name string, dryRun bool,
	change func(runtime.Object) error) (runtime.Object, error) {
	if name == f.name && time.Now().Before(*f.until) {
		return nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	return f.Objects.UpdateStatus(ctx, res, namespace, name, dryRun, change)
}

// A definition gets names that became free although writes of its status fail for a while, without
// another change of any definition.
func TestNamesAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until time.Time
		p := newPlane(t, func(cfg *crd.Config) {
			objects := cfg.Objects
			cfg.Objects = func() resource.Objects { return failingStatus{objects(), "gadgets.example.com", &until} }
		})
		defer p.run()()
		p.do("POST", definitionsPath, widgets()).want(201)
		rival := widgets("widgets.example.com", "gadgets.example.com", `"plural":"widgets"`, `"plural":"gadgets"`,
			`"singular":"widget"`, `"singular":"gadget"`)
		p.do("POST", definitionsPath, rival).want(201)
		synctest.Wait()
		until = time.Now().Add(30 * time.Second) // of the bubble
		p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
		time.Sleep(time.Minute)
		a := p.do("GET", definitionsPath+"/gadgets.example.com", "").want(200)
		if got := conditions(a); !slices.Contains(got, "Established True InitialNamesAccepted") {
			t.Errorf("conditions %q", got)
		}
		// The server owns the status that it writes, also without a loopback.
		if !strings.Contains(string(a.body), `"manager":"kube-apiserver"`) {
			t.Errorf("managedFields %v", a.field("metadata.managedFields"))
		}
	})
}

// A definition in a protected group is refused without the annotation of an API approval. With an
// annotation of no approval, it gets a condition.
func TestApprovalCondition(t *testing.T) {
	p := newPlane(t)
	protected := widgets("example.com", "example.k8s.io")
	p.do("POST", definitionsPath, protected).want(422)
	protected = strings.Replace(protected, `"metadata":{`,
		`"metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved, a test"},`, 1)
	a := p.do("POST", definitionsPath, protected).want(201)
	if got := conditions(a); !slices.Contains(got, "KubernetesAPIApprovalPolicyConformant False UnapprovedAnnotation") {
		t.Errorf("conditions %q", got)
	}
}

// A read applies the current defaults and pruning to objects that were stored before.
func TestSchemaChange(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green","note":"n"}`)).want(201)
	p.addWeight()
	check := func(a *answer) {
		t.Helper()
		if a.field("spec.weight") != 7.0 || a.field("spec.note") != nil {
			t.Errorf("read under the new schema: %s", a.body)
		}
	}
	check(p.do("GET", widgetsPath+"/a", "").want(200))
	check(p.do("PATCH", widgetsPath+"/a", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type",
		"application/merge-patch+json").want(200))
	check(p.do("GET", widgetsPath+"/a", "").want(200))
}

// The last state of an object in a watch is also read under the current schema, whether the object
// is deleted or leaves the selection of the watch.
func TestSchemaChangeBeforeDeletion(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	for _, name := range []string{"deleted", "left"} {
		p.do("POST", widgetsPath, strings.Replace(widget(name, `{"color":"green","note":"n"}`), `"metadata":{`,
			`"metadata":{"labels":{"on":"yes"},`, 1)).want(201)
	}
	p.addWeight()
	since := p.do("GET", widgetsPath, "").want(200).field("metadata.resourceVersion").(string)
	p.do("DELETE", widgetsPath+"/deleted", "").want(200)
	p.do("PATCH", widgetsPath+"/left", `{"metadata":{"labels":{"on":"no"}}}`, "Content-Type",
		"application/merge-patch+json").want(200)
	for _, accept := range []string{"application/json", "application/cbor",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		watched := string(p.do("GET", widgetsPath+"?watch=1&timeoutSeconds=1&labelSelector=on%3Dyes&resourceVersion="+
			since, "", "Accept", accept).want(200).body)
		if n := strings.Count(watched, "DELETED"); n != 2 {
			t.Errorf("%s: %d objects are deleted: %q", accept, n, watched)
		}
		if strings.Contains(watched, `"note":"n"`) ||
			accept == "application/json" && strings.Count(watched, `"weight":7`) != 2 {
			t.Errorf("%s: the last states: %q", accept, watched)
		}
	}
}

// A negative timeout ends a watch at once; names that no object can have.
func TestOddRequests(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("GET", widgetsPath+"?watch=1&timeoutSeconds=-1", "").want(200)
	for name, want := range map[string]string{
		"%25zz":  `Name parameter invalid: "%zz": may not contain '%'`,
		"%2e%2e": `Name parameter invalid: "..": may not be '..'`,
	} {
		for _, method := range []string{"GET", "DELETE"} {
			got := p.do(method, widgetsPath+"/"+name, "").want(400).message()
			assert.Equalf(t, got, want, "%s %s", method, name)
		}
	}
}

// addWeight changes the definition of widgets: spec has weight, by default 7, instead of note.
func (p *plane) addWeight() {
	p.t.Helper()
	current := p.do("GET", definitionsPath+"/widgets.example.com", "").object()
	changed := strings.NewReplacer(
		`"note":{"nullable":true,"type":"string"}`, `"weight":{"type":"integer","default":7}`,
		`"additionalPrinterColumns":[{"jsonPath":".spec.color","name":"Color","type":"string"},`,
		`"additionalPrinterColumns":[`,
	).Replace(mustJSON(p.t, current.Object))
	p.do("PUT", definitionsPath+"/widgets.example.com", changed).want(200)
}

// A write that began before a change of the definition is stored under the new schema. It is not
// stored after the definition was deleted.
func TestSchemaChangeDuringWrite(t *testing.T) {
	var objects func() resource.Objects
	p := newPlane(t, func(cfg *crd.Config) { objects = cfg.Objects })
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green","note":"n"}`)).want(201)
	update := func(meanwhile func()) error {
		res, _ := p.registry.Current().ByName(resourceOf("widgets"))
		_, err := objects().Update(t.Context(), res, "default", "a", nil, false, func(hub runtime.Object) error {
			hub.(metav1.Object).SetLabels(map[string]string{"x": fmt.Sprint(p.store.Snapshot().Revision())})
			meanwhile()
			return nil
		})
		return err
	}
	require.NoError(t, update(p.addWeight))
	if a := p.do("GET", widgetsPath+"/a", "").want(200); a.field("spec.weight") != 7.0 || a.field("spec.note") != nil ||
		a.field("metadata.labels.x") == nil {
		t.Errorf("read under the new schema: %s", a.body)
	}

	before := p.store.Snapshot().Get(store.Key{Resource: "widgets.example.com", Namespace: "default", Name: "a"})
	err := update(func() {
		definition := store.Key{Resource: "customresourcedefinitions.apiextensions.k8s.io", Name: "widgets.example.com"}
		_, err := p.store.Commit(t.Context(), store.Op{Key: definition, Expect: store.AnyRevision})
		require.NoError(t, err)
	})
	if !apierrors.IsNotFound(err) {
		t.Errorf("update after the definition was deleted: %v, want not found", err)
	}
	if p.store.Snapshot().Get(before.Key) != before {
		t.Error("the update was stored after the definition was deleted")
	}
}

// Each version is served with its own schema, and a deprecated one with a warning. Objects are
// returned in the version of the request.
func TestVersions(t *testing.T) {
	p := newPlane(t)
	v1 := `{"name":"v1","served":true,"storage":true,`
	old := `{"name":"v1beta1","served":true,"storage":false,"deprecated":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"color":{"type":"string","maxLength":5},"replicas":{"type":"integer"}}}}}}},` + v1
	p.do("POST", definitionsPath, widgets(v1, old)).want(201)
	path := strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)
	body := strings.Replace(widget("a", `{"color":"green","gone":1}`), "example.com/v1", "example.com/v1beta1", 1)
	a := p.do("POST", path, body).want(201)
	if a.field("apiVersion") != "example.com/v1beta1" || a.field("spec.gone") != nil {
		t.Errorf("created: %s", a.body)
	}
	if !slices.ContainsFunc(a.warnings, func(w string) bool {
		return w == "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"
	}) {
		t.Errorf("warnings %q", a.warnings)
	}
	a = p.do("GET", widgetsPath+"/a", "").want(200)
	if a.field("apiVersion") != "example.com/v1" || a.field("spec.replicas") != 1.0 {
		t.Errorf("in the storage version: %s", a.body)
	}
	// The rules of the request's version apply: the enum is v1's, the length is v1beta1's.
	p.do("POST", path, strings.NewReplacer("green", "violet", `"a"`, `"b"`).Replace(body)).want(422)
	p.do("POST", path, strings.NewReplacer("green", "pink", `"a"`, `"b"`).Replace(body)).want(201)
	p.do("PATCH", path+"/b/status", `{}`, "Content-Type", "application/merge-patch+json").want(404)

	// An apply by a manager whose version was removed fails and does not change the object.
	apply := func(path, version, color string) *answer {
		body := strings.Replace(widget("c", `{"color":"`+color+`"}`), "example.com/v1", "example.com/"+version, 1)
		return p.do("PATCH", path+"/c?fieldManager=m", body, "Content-Type", "application/apply-patch+yaml")
	}
	apply(path, "v1beta1", "green").want(201)
	p.do("PATCH", definitionsPath+"/widgets.example.com", `[{"op":"remove","path":"/spec/versions/0"}]`,
		"Content-Type", "application/json-patch+json").want(200)
	refused := apply(widgetsPath, "v1", "blue").want(500)
	if !strings.Contains(refused.message(), "request to convert CR to an invalid group/version: example.com/v1beta1") {
		t.Error(refused.message())
	}
	c := p.do("GET", widgetsPath+"/c", "").want(200)
	assert.Equalf(t, c.field("spec.color"), "green", "the object changed: %s", c.body)
}

// Definitions outlive the process.
func TestLoad(t *testing.T) {
	s := storetest.New(t, store.Config{})
	p := planeOver(t, s)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
	again := planeOver(t, s)
	again.do("GET", widgetsPath+"/a", "").want(200)
	again.do("POST", widgetsPath, widget("b", `{"color":"green"}`)).want(201)
	rival := widgets("widgets.example.com", "gadgets.example.com", `"plural":"widgets"`, `"plural":"gadgets"`,
		`"singular":"widget"`, `"singular":"gadget"`)
	if got := conditions(again.do("POST", definitionsPath, rival).want(201)); !slices.Contains(got,
		"NamesAccepted False ListKindConflict") {
		t.Errorf("names are not recorded: %q", got)
	}
}

// A restarted server finishes an interrupted deletion.
func TestRunFinishesOldDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		p.do("POST", definitionsPath, widgets()).want(201)
		p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
		p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
		p.do("GET", widgetsPath+"/a", "").want(200)
		time.Sleep(time.Hour)
		defer p.run()()
		synctest.Wait()
		p.do("GET", definitionsPath+"/widgets.example.com", "").want(404)
	})
}

// An object in a version that its definition no longer has cannot be read. An unsafe deletion
// removes it.
func TestUnsafeDeletionOfUnreadableObject(t *testing.T) {
	p := newPlane(t)
	const definition, merge = definitionsPath + "/widgets.example.com", "application/merge-patch+json"
	p.do("POST", definitionsPath, widgets()).want(201)
	held := strings.Replace(widget("a", `{"color":"green"}`), `"metadata":{`,
		`"metadata":{"finalizers":["example.com/hold"],`, 1)
	p.do("POST", widgetsPath, held).want(201)
	v2 := `{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`
	v1 := `{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}`
	p.do("PATCH", definition, `{"spec":{"versions":[`+v1+","+v2+`]}}`, "Content-Type", merge).want(200)
	p.do("PATCH", definition+"/status", `{"status":{"storedVersions":["v2"]}}`, "Content-Type", merge).want(200)
	p.do("PATCH", definition, `{"spec":{"versions":[`+v2+`]}}`, "Content-Type", merge).want(200)

	path := strings.Replace(widgetsPath, "/v1/", "/v2/", 1) + "/a"
	p.do("GET", path, "").want(500)
	for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		list := p.do("GET", strings.TrimSuffix(path, "/a"), "", "Accept", accept).want(500)
		if list.field("reason") != "StorageReadError" ||
			!strings.Contains(string(list.body), `"/registry/example.com/widgets/default/a"`) {
			t.Errorf("%s", list.body)
		}
	}
	p.do("DELETE", path, "").want(500)
	const unsafe = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	p.do("DELETE", path+unsafe+"&dryRun=All", "").want(200)
	p.do("GET", path, "").want(500)
	deleted := p.do("DELETE", path+unsafe, "").want(200)
	if deleted.field("status") != "Success" || deleted.field("details.name") != "a" ||
		deleted.field("details.kind") != "Widget" {
		t.Errorf("%s", deleted.body)
	}
	p.do("GET", path, "").want(404)
	p.do("DELETE", path+unsafe, "").want(404)
}

package controlplane

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/filters"
	verbs "kelson.dev/apiserver/rest"
	"kelson.dev/internal/require"
)

// Every verb on every resource and subresource, with every patch type, on collections and as a dry
// run, is authorized once and recorded once. A write is admitted once, with the right objects, and
// can be refused.
//
// The resources come from discovery, and an object of each kind from the samples of the
// differential test.
func TestEveryRequestIsAuthorizedAndAdmitted(t *testing.T) {
	o := newOracle(t)
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(o.plane.RESTConfig()).ServerPreferredResources()
	require.NoError(t, err)
	var kinds int
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, res := range list.APIResources {
			sample := o.samples[schema.GroupKind{Group: gv.Group, Kind: res.Kind}]
			// ComponentStatuses are read-only and not stored.
			if strings.Contains(res.Name, "/") || res.Name == "componentstatuses" {
				continue
			}
			if sample == nil {
				t.Errorf("%s %s: missing sample", gv, res.Name)
				continue
			}
			t.Run(gv.Group+"/"+res.Name, func(t *testing.T) {
				p := &probe{oracle: o, t: t, gv: gv, res: res, sample: sample, subs: o.subresources(t, gv, res.Name)}
				if p.run() {
					kinds++
				}
			})
		}
	}
	if kinds < 50 {
		t.Errorf("only %d kinds were probed", kinds)
	}
}

// seen is a call of the admission chain.
type seen struct {
	op       admission.Operation
	resource string // with its subresource
	kind     schema.GroupVersionKind
	dryRun   bool
	obj, old *string // the label that distinguishes states; nil if the object does not exist
}

// gate counts the calls of authorizer, admission and audit sink, and refuses writes on demand.
type gate struct {
	authorized []authorizer.Attributes
	admitted   []seen
	validated  []seen
	recorded   []*auditinternal.Event
	refuse     string // "mutate", "validate" or ""
}

var errGate = errors.New("the gate refuses writes")

func (g *gate) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.authorized = append(g.authorized, a)
	return authorizer.DecisionAllow, "", nil
}

func (g *gate) Handles(admission.Operation) bool { return true }

func (g *gate) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	g.admitted = append(g.admitted, observe(a))
	if g.refuse == "mutate" {
		return admission.NewForbidden(a, errGate)
	}
	return nil
}

func (g *gate) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	g.validated = append(g.validated, observe(a))
	if g.refuse == "validate" {
		return admission.NewForbidden(a, errGate)
	}
	return nil
}

// ProcessEvents implements the audit sink.
func (g *gate) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		if e.Stage == auditinternal.StageResponseComplete {
			g.recorded = append(g.recorded, e)
		}
	}
	return true
}

func observe(a admission.Attributes) seen {
	state := func(obj runtime.Object) *string {
		if obj == nil {
			return nil
		}
		label := ""
		if object, err := meta.Accessor(obj); err == nil {
			label = object.GetLabels()["state"]
		}
		return &label
	}
	resource := a.GetResource().Resource
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	return seen{a.GetOperation(), resource, a.GetKind(), a.IsDryRun(), state(a.GetObject()), state(a.GetOldObject())}
}

// oracle is a control plane with a gate.
type oracle struct {
	plane   *ControlPlane
	handler http.Handler
	samples map[schema.GroupKind]map[string]any
	*gate
}

func newOracle(t *testing.T) *oracle {
	// Flow control would concurrently write the status of FlowSchemas.
	plane, err := Start(t.Context(), Config{Controllers: NoControllers{}, Limits: Limits{NoPriorityAndFairness: true}})
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	o := &oracle{plane: plane, gate: &gate{}, samples: map[schema.GroupKind]map[string]any{}}
	resources := verbs.New(verbs.Config{Store: plane.store, Registry: plane.registry, Admission: o.gate})
	o.handler = filters.New(filters.Config{
		Resources: resources, Authorizer: o.gate,
		AuditPolicy: policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil), AuditSink: o.gate,
	})
	text, err := os.ReadFile("../../test/differential/samples.yaml")
	require.NoError(t, err)
	for doc := range strings.SplitSeq(strings.ReplaceAll(string(text), "OWN", "oracle"), "\n---\n") {
		var sample map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(doc), &sample))
		gvk := schema.FromAPIVersionAndKind(sample["apiVersion"].(string), sample["kind"].(string))
		o.samples[gvk.GroupKind()] = sample
	}
	o.samples[schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}]["spec"].(map[string]any)["request"] = certificateRequest(t)
	if r := o.send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml",
		widgets); r.Code != http.StatusCreated {
		t.Fatalf("create definition: %d %s", r.Code, r.Body)
	}
	o.samples[schema.GroupKind{Group: "shop.example", Kind: "Widget"}] = map[string]any{
		"apiVersion": "shop.example/v1", "kind": "Widget", "spec": map[string]any{"replicas": 1}}
	o.samples[schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}] = definition(t)
	// objects that need certain names
	for _, text := range []string{serviceOfAnAPI, address, binding} {
		var sample map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &sample))
		gvk := schema.FromAPIVersionAndKind(sample["apiVersion"].(string), sample["kind"].(string))
		o.samples[gvk.GroupKind()] = sample
	}
	if r := o.send(http.MethodPost, "/api/v1/namespaces", "",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"oracle"}}`); r.Code != http.StatusCreated {
		t.Fatalf("create namespace: %d %s", r.Code, r.Body)
	}
	if r := o.send(http.MethodPost, "/api/v1/namespaces/oracle/pods", "application/yaml",
		unbound); r.Code != http.StatusCreated {
		t.Fatalf("create pod: %d %s", r.Code, r.Body)
	}
	return o
}

const (
	serviceOfAnAPI = `{apiVersion: apiregistration.k8s.io/v1, kind: APIService,
		spec: {group: oracle.example, version: v9, groupPriorityMinimum: 100, versionPriority: 10}}`
	address = `{apiVersion: networking.k8s.io/v1, kind: IPAddress, spec: {parentRef: {resource: services, namespace: oracle, name: s}}}`
	unbound = `{apiVersion: v1, kind: Pod, metadata: {name: unbound}, spec: {containers: [{name: c, image: "example.com/app:1"}]}}`
	binding = `{apiVersion: v1, kind: Binding, metadata: {name: unbound}, target: {kind: Node, name: node-1}}`
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// definition returns the sample of another definition.
func definition(t *testing.T) (sample map[string]any) {
	text := strings.NewReplacer("widgets", "gizmos", "shop.example", "oracle.example", "Widget",
		"Gizmo").Replace(widgets)
	require.NoError(t, yaml.Unmarshal([]byte(text), &sample))
	return sample
}

func certificateRequest(t *testing.T) string {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// send sends a request as an administrator, after resetting the gate's counters.
func (o *oracle) send(method, path, contentType, body string) *httptest.ResponseRecorder {
	o.authorized, o.admitted, o.validated, o.recorded = nil, nil, nil, nil
	if contentType == "" {
		contentType = "application/json"
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, req.WithContext(filters.WithUser(context.Background(), admin)))
	return w
}

func (o *oracle) subresources(t *testing.T, gv schema.GroupVersion, plural string) (subs []metav1.APIResource) {
	list, err := discovery.NewDiscoveryClientForConfigOrDie(o.plane.RESTConfig()).
		ServerResourcesForGroupVersion(gv.String())
	require.NoError(t, err)
	for _, r := range list.APIResources {
		if strings.HasPrefix(r.Name, plural+"/") {
			subs = append(subs, r)
		}
	}
	return subs
}

// probe sends all requests for one resource.
type probe struct {
	*oracle
	t          *testing.T
	gv         schema.GroupVersion
	res        metav1.APIResource
	sample     map[string]any
	subs       []metav1.APIResource
	collection string
	name       string
}

// expect describes the expected calls of the gate.
type expect struct {
	verb     string // the authorizer's verb
	resource string // "" means the probe's
	op       admission.Operation
	kind     schema.GroupVersionKind // zero means the probe's
	obj, old *string
	any      bool // check only whether there are objects, not their states
	fails    bool // the request may fail after mutating admission for other reasons
}

// The names that some kinds require.
var names = map[string]string{
	"IPAddress": "192.0.2.7", "APIService": "v9.oracle.example", "CustomResourceDefinition": "gizmos.oracle.example",
}

func text(s string) *string { return &s }

func (p *probe) run() bool {
	t := p.t
	p.collection = "/apis/" + p.gv.String()
	if p.gv.Group == "" {
		p.collection = "/api/" + p.gv.Version
	}
	if p.res.Namespaced {
		p.collection += "/namespaces/oracle"
	}
	p.collection += "/" + p.res.Name
	if p.name = names[p.res.Kind]; p.name == "" {
		p.name = "oracle-probe"
	}
	can := func(verb string) bool { return slices.Contains(p.res.Verbs, verb) }
	if !can("create") {
		t.Skipf("verbs %v", p.res.Verbs)
	}
	if r := p.send(http.MethodPost, p.collection+"?dryRun=All", "",
		p.object(p.name, "try")); r.Code != http.StatusCreated {
		if len(p.admitted) > 1 || len(p.authorized) != 1 {
			t.Errorf("create: authorized %d times, admitted %d times", len(p.authorized), len(p.admitted))
		}
		t.Fatalf("the sample is not accepted under the name %s: %s", p.name, r.Body)
	}
	if !can("get") { // the server answers the kind but does not store it
		p.write(http.MethodPost, p.collection, "", p.object(p.name, "one"),
			expect{verb: "create", op: admission.Create, obj: text("")})
		return true
	}
	one := p.collection + "/" + p.name
	p.write(http.MethodPost, p.collection, "", p.object(p.name, "one"),
		expect{verb: "create", op: admission.Create, obj: text("one")})
	p.read(one, "get")
	p.read(p.collection, "list")
	before := "one"
	if can("update") {
		p.write(http.MethodPut, one, "", p.current(one, "put"),
			expect{verb: "update", op: admission.Update, obj: text("put"), old: text("one")})
		before = "put"
	}
	for _, patch := range []struct{ state, kind, body string }{
		{"json", "application/json-patch+json", `[{"op":"add","path":"/metadata/labels/state","value":"json"}]`},
		{"merge", "application/merge-patch+json", `{"metadata":{"labels":{"state":"merge"}}}`},
		{"strategic", "application/strategic-merge-patch+json", `{"metadata":{"labels":{"state":"strategic"}}}`},
		{"apply", "application/apply-patch+yaml",
			fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"state":"apply"}}}`, p.gv,
				p.res.Kind, p.name)},
	} {
		if !can("patch") {
			break
		}
		path := one
		if res, _ := p.plane.registry.Current().ByName(schema.GroupResource{Group: p.gv.Group, Resource: p.res.Name}); patch.state == "strategic" {
			if _, ok := res.Codec.PatchMeta(p.gv.Version); !ok {
				continue // custom resources have none
			}
		}
		if patch.state == "apply" {
			path += "?fieldManager=oracle&force=true"
		}
		p.write(http.MethodPatch, path, patch.kind, patch.body,
			expect{verb: "patch", op: admission.Update, obj: text(patch.state), old: &before})
		before = patch.state
	}
	for _, sub := range p.subs {
		p.subresource(one, sub)
	}
	if can("delete") {
		p.write(http.MethodDelete, one+"?gracePeriodSeconds=0", "", "",
			expect{verb: "delete", op: admission.Delete, old: text(before)})
	}
	if can("deletecollection") && names[p.res.Kind] == "" {
		p.removeAll()
	}
	return true
}

// object returns the sample with a name, in a state.
func (p *probe) object(name, state string) string {
	obj := maps.Clone(p.sample)
	metadata, _ := obj["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"], metadata["labels"] = name, map[string]any{"state": state, "probe": "yes"}
	if obj["apiVersion"] = p.gv.String(); slices.Contains(p.res.Verbs, "get") {
		obj["metadata"] = metadata // reviews have none
	}
	data, err := json.Marshal(obj)
	require.NoError(p.t, err)
	return string(data)
}

// current returns the stored object with another state.
func (p *probe) current(path, state string) string {
	r := p.send(http.MethodGet, path, "", "")
	var obj map[string]any
	require.NoError(p.t, json.Unmarshal(r.Body.Bytes(), &obj))
	obj["metadata"].(map[string]any)["labels"].(map[string]any)["state"] = state
	data, err := json.Marshal(obj)
	require.NoError(p.t, err)
	return string(data)
}

// read sends a read, which must not be admitted.
func (p *probe) read(path, verb string) {
	p.t.Helper()
	r := p.send(http.MethodGet, path, "", "")
	if r.Code != http.StatusOK || len(p.admitted)+len(p.validated) != 0 || len(p.authorized) != 1 ||
		p.authorized[0].GetVerb() != verb {
		p.t.Errorf("GET %s: %d, authorized %d times, admitted %d times", path, r.Code, len(p.authorized),
			len(p.admitted))
	}
}

// write sends a request as a dry run, with each admission phase refusing, and then normally.
func (p *probe) write(method, path, contentType, body string, want expect) {
	p.t.Helper()
	dry := path + "?dryRun=All"
	if strings.Contains(path, "?") {
		dry = path + "&dryRun=All"
	}
	revision := p.revision()
	if want.op != admission.Connect {
		p.check(method, dry, p.send(method, dry, contentType, body), want, true)
	}
	for _, half := range []string{"mutate", "validate"} {
		p.refuse = half
		r := p.send(method, path, contentType, body)
		p.refuse = ""
		if reached := half == "mutate" || len(p.validated) > 0; reached &&
			(r.Code != http.StatusForbidden || !strings.Contains(r.Body.String(), errGate.Error())) {
			p.t.Errorf("%s %s refused in %s: %d %s", method, path, half, r.Code, r.Body)
		} else if !reached && !want.fails {
			p.t.Errorf("%s %s does not reach validating admission: %d %s", method, path, r.Code, r.Body)
		}
	}
	if p.revision() != revision {
		p.t.Errorf("%s %s: a dry run or a refused request wrote something", method, path)
	}
	if want.op != admission.Connect {
		p.check(method, path, p.send(method, path, contentType, body), want, false)
	}
}

// revision returns the stored object's revision, or 0.
func (p *probe) revision() uint64 {
	res, _ := p.plane.registry.Current().ByName(schema.GroupResource{Group: p.gv.Group, Resource: p.res.Name})
	namespace := ""
	if res.Namespaced {
		namespace = "oracle"
	}
	if obj := p.plane.store.Snapshot().Get(res.Key(namespace, p.name)); obj != nil {
		return obj.Revision
	}
	return 0
}

// check compares the calls of the gate with the expected ones.
func (p *probe) check(method, path string, r *httptest.ResponseRecorder, want expect, dryRun bool) {
	p.t.Helper()
	if want.resource == "" {
		want.resource = p.res.Name
	}
	if want.kind.Empty() {
		want.kind = p.gv.WithKind(p.res.Kind)
	}
	if r.Code >= 300 && !want.fails {
		p.t.Errorf("%s %s: %d %s", method, path, r.Code, r.Body)
		return
	}
	if len(p.authorized) != 1 {
		p.t.Errorf("%s %s: authorized %d times", method, path, len(p.authorized))
	} else if a := p.authorized[0]; a.GetVerb() != want.verb ||
		strings.TrimSuffix(a.GetResource()+"/"+a.GetSubresource(), "/") != want.resource ||
		a.GetAPIGroup() != p.gv.Group {
		p.t.Errorf("%s %s: authorized as %s %s/%s, want %s %s", method, path, a.GetVerb(), a.GetResource(),
			a.GetSubresource(), want.verb, want.resource)
	}
	if len(p.recorded) != 1 || p.recorded[0].Verb != want.verb || int(p.recorded[0].ResponseStatus.Code) != r.Code {
		p.t.Errorf("%s %s: recorded as %v", method, path, p.recorded)
	}
	phases := map[string][]seen{"mutating": p.admitted, "validating": p.validated}
	if r.Code >= 300 {
		delete(phases, "validating")
	}
	for phase, got := range phases {
		if len(got) != 1 {
			p.t.Errorf("%s %s: %s admission %d times", method, path, phase, len(got))
			continue
		}
		g := got[0]
		if g.op != want.op || g.resource != want.resource || g.kind != want.kind || g.dryRun != dryRun {
			p.t.Errorf("%s %s: %s admission saw %s %s %s, dry run %v", method, path, phase, g.op, g.resource, g.kind,
				g.dryRun)
		}
		if !same(g.obj, want.obj, want.any) || !same(g.old, want.old, want.any) {
			p.t.Errorf("%s %s: %s admission saw object %s, old %s; want %s, %s", method, path, phase, show(g.obj),
				show(g.old), show(want.obj), show(want.old))
		}
	}
}

func same(got, want *string, any bool) bool {
	if got == nil || want == nil || any {
		return (got == nil) == (want == nil)
	}
	return *got == *want
}

func show(s *string) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *s)
}

// subresource sends writes to a subresource.
func (p *probe) subresource(object string, sub metav1.APIResource) {
	p.t.Helper()
	_, name, _ := strings.Cut(sub.Name, "/")
	kind := p.gv.WithKind(sub.Kind)
	if sub.Group != "" || sub.Version != "" {
		kind = schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}
	}
	want := expect{resource: sub.Name, kind: kind, op: admission.Update, obj: text(""), old: text(""), any: true,
		fails: true}
	path := object + "/" + name
	switch {
	case strings.HasSuffix(sub.Kind, "Options"): // the resource itself answers
		want.op = admission.Connect
		p.write(http.MethodPost, path+"?command=x&port=1", "", "", want)
	case slices.Contains(sub.Verbs, "patch"):
		want.verb = "patch"
		body := `{"metadata":{"labels":{"touched":"yes"}}}`
		if sub.Kind == "Scale" {
			body = `{"spec":{"replicas":2}}`
		}
		p.write(http.MethodPatch, path, "application/merge-patch+json", body, want)
		if name == "status" || sub.Kind == "Scale" {
			want.fails, want.verb = false, "update"
			p.write(http.MethodPut, path, "", p.send(http.MethodGet, path, "", "").Body.String(), want)
		}
	case name == "binding", name == "eviction", name == "token":
		want.verb, want.op, want.old = "create", admission.Create, nil
		body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, kind.GroupVersion(), kind.Kind,
			p.name)
		if name == "binding" {
			body = fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"n"}}`, p.name)
		}
		if name != "eviction" { // eviction would delete the object
			p.write(http.MethodPost, path, "", body, want)
		}
	}
}

// removeAll deletes a collection of two objects.
func (p *probe) removeAll() {
	p.t.Helper()
	for _, name := range []string{"oracle-a", "oracle-b"} {
		if r := p.send(http.MethodPost, p.collection, "", p.object(name, name)); r.Code != http.StatusCreated {
			return // two objects with this sample are impossible
		}
	}
	path := p.collection + "?labelSelector=probe%3Dyes&gracePeriodSeconds=0"
	p.refuse = "validate"
	if r := p.send(http.MethodDelete, path, "", ""); r.Code != http.StatusForbidden {
		p.t.Errorf("DELETE %s refused: %d %s", path, r.Code, r.Body)
	}
	p.refuse = ""
	r := p.send(http.MethodDelete, path, "", "")
	if r.Code != http.StatusOK || len(p.authorized) != 1 || p.authorized[0].GetVerb() != "deletecollection" {
		p.t.Errorf("DELETE %s: %d, authorized %d times", path, r.Code, len(p.authorized))
	}
	for phase, got := range map[string][]seen{"mutating": p.admitted, "validating": p.validated} {
		states := map[string]int{}
		for _, g := range got {
			if g.op == admission.Delete && g.obj == nil && g.old != nil {
				states[*g.old]++
			}
		}
		if states["oracle-a"] != 1 || states["oracle-b"] != 1 {
			p.t.Errorf("DELETE %s: %s admission saw %v, want each once", path, phase, states)
		}
	}
}

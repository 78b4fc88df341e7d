package kubernetes_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/identity"
	"kelson.dev/operator/client"
)

// writes are writes such as "create pods".
type writes map[string]bool

// has reports whether there is a write, or with "VERB *" any write with this verb.
func (w writes) has(write string) bool {
	verb, any := strings.CutSuffix(write, " *")
	if !any {
		return w[write]
	}
	for each := range w {
		if strings.HasPrefix(each, verb+" ") {
			return true
		}
	}
	return false
}

// witness is an audit backend that keeps who wrote what.
type witness struct {
	mu      sync.Mutex
	writes  map[string]writes // by user
	keys    map[string]bool   // objects with a record, and "RESOURCE/NAMESPACE/*" for collections
	refused []string
}

func newWitness() *witness {
	return &witness{writes: map[string]writes{}, keys: map[string]bool{}}
}

func (w *witness) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditapi.LevelMetadata,
		OmitStages: []auditapi.Stage{auditapi.StageRequestReceived}}
}

// machine reports whether a user is a component of the control plane.
func machine(name string) bool { return strings.HasPrefix(name, "system:") && name != user.Anonymous }

func (w *witness) ProcessEvents(events ...*auditapi.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if e.Stage != auditapi.StageResponseComplete || e.ObjectRef == nil || e.ResponseStatus == nil {
			continue
		}
		who, code := e.User.Username, e.ResponseStatus.Code
		if code == 401 || code == 403 && machine(who) {
			w.refused = append(w.refused, fmt.Sprintf("%s %s %s: %s", who, e.Verb, e.RequestURI,
				e.ResponseStatus.Message))
		}
		if code >= 300 || !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"},
			e.Verb) {
			continue
		}
		ref := e.ObjectRef
		resource := ref.Resource
		if ref.APIGroup != "" {
			resource += "." + ref.APIGroup
		}
		name := ref.Name
		stored := strings.Replace(resource, "events.events.k8s.io", "events", 1)
		if e.Verb == "deletecollection" {
			name = "*"
		}
		w.keys[stored+"/"+ref.Namespace+"/"+name] = true
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		if strings.HasPrefix(who, "system:node:") {
			who = "system:node:NAME"
		}
		if w.writes[who] == nil {
			w.writes[who] = writes{}
		}
		w.writes[who][e.Verb+" "+resource] = true
	}
	return true
}

//go:embed testdata/every-controller.yaml
var everyController string

// driven is a control plane on which every controller has work to do.
type driven struct {
	*testing.T
	*witness
	plane  *controlplane.ControlPlane
	client client.Client
	stored map[string]bool // like witness.keys, for the writes of the store
}

func drive(t *testing.T) *driven {
	t.Helper()
	authority, err := pki.NewAuthority("kelson-ca")
	require.NoError(t, err)
	d := &driven{T: t, witness: newWitness(), stored: map[string]bool{}}
	d.plane, err = controlplane.Start(t.Context(), controlplane.Config{
		Audit:       controlplane.Audit{Policy: d.witness, Sink: d.witness},
		Controllers: controlplane.AllControllers{LoadBalancers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}},
		Node:        controlplane.Simulated{Groups: []simulatednodes.Group{{Count: 2}}, Lease: controlplane.NodeLease},
		RootCA:      authority.PEM, Authority: authority,
		Authentication: controlplane.Authentication{AcceptBootstrapTokens: true},
		Admission:      controlplane.Admission{Enable: []string{"NodeRestriction"}},
		Endpoints:      controlplane.Endpoints{Address: netip.MustParseAddrPort("192.0.2.200:6443")},
	})
	require.NoError(t, err)
	var mu sync.Mutex
	note := func(obj *store.Object) {
		mu.Lock()
		defer mu.Unlock()
		d.stored[obj.Key.Resource+"/"+obj.Key.Namespace+"/"+obj.Key.Name] = true
	}
	subscription := d.plane.Store().Subscribe([]string{""}, func(sn *store.Snapshot) {
		for resource := range sn.Resources() {
			for obj := range sn.Scan(resource, "", store.Key{}) {
				note(obj)
			}
		}
	}, func(e *store.Event) { note(e.Object) })
	t.Cleanup(func() { d.plane.Stop(); subscription.End() })
	d.client, err = client.New(client.Config{
		REST: d.plane.RESTConfigAs(&user.DefaultInfo{Name: "tester", Groups: []string{user.SystemPrivilegedGroup}})})
	require.NoError(t, err)
	return d
}

// apply creates the objects of a manifest.
func (d *driven) apply(manifest string) {
	d.Helper()
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		obj := &unstructured.Unstructured{}
		require.NoErrorf(d, yaml.Unmarshal([]byte(text), &obj.Object), "%s", text)
		if len(obj.Object) == 0 {
			continue
		}
		if err := d.client.Create(d.Context(), obj); err != nil {
			d.Errorf("create %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func (d *driven) remove(objects ...client.Object) {
	d.Helper()
	for _, obj := range objects {
		assert.NoErrorf(d, d.client.Delete(d.Context(), obj), "delete %T %s", obj, obj.GetName())
	}
}

func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// request returns a kubelet's CertificateSigningRequest, sent by the kubelet.
func (d *driven) request(name, node, signer, usage string, addresses ...string) {
	d.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node,
		Organization: []string{"system:nodes"}}}
	if len(addresses) > 0 {
		template.DNSNames = []string{node}
		for _, address := range addresses {
			template.IPAddresses = append(template.IPAddresses, netip.MustParseAddr(address).AsSlice())
		}
	}
	csr := named("certificates.k8s.io/v1", "CertificateSigningRequest", "", name)
	csr.Object["spec"] = map[string]any{
		"request":    base64.StdEncoding.EncodeToString(requestPEM(d, template)),
		"signerName": signer, "usages": []any{"digital signature", usage},
	}
	kubelet, err := client.New(client.Config{REST: d.plane.RESTConfigAs(identity.Node(node))})
	require.NoError(d, err)
	assert.NoError(d, kubelet.Create(d.Context(), csr))
}

// everything makes every controller write.
func (d *driven) everything() {
	ctx, wait := d.Context(), func(after time.Duration) { time.Sleep(after); synctest.Wait() }
	wait(time.Minute)
	d.apply(everyController)
	wait(5 * time.Minute)

	node := &corev1.Node{}
	require.NoError(d, d.client.Get(ctx, client.Key{Name: "node-1"}, node))
	var address string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	d.request("client", "node-1", "kubernetes.io/kube-apiserver-client-kubelet", "client auth")
	d.request("serving", "node-1", "kubernetes.io/kubelet-serving", "server auth", address)
	// New templates replace pods.
	rollout := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"revision":"2"}}}}}`))
	for _, obj := range []client.Object{named("apps/v1", "Deployment", "default", "web"),
		named("apps/v1", "DaemonSet", "default", "agent")} {
		if err := d.client.Patch(ctx, obj, rollout); err != nil {
			d.Error("rollout: ", err)
		}
	}
	wait(5 * time.Minute)
	// An eviction of a pod with a budget.
	pods, err := client.List[corev1.Pod](ctx, d.client, client.InNamespace("default"),
		client.MatchingLabels{"app": "web"})
	if err != nil || len(pods) == 0 {
		d.Fatal("no pods of the Deployment", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pods[0].Name}}
	if err := d.client.Subresource("eviction").Create(ctx, pods[0], eviction); err != nil {
		d.Error("evict: ", err)
	}
	wait(time.Minute)
	// Claims that grow, and classes, claims and volumes that are protected.
	grow := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`))
	if err := d.client.Patch(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-db-0"}}, grow); err != nil {
		d.Error("resize: ", err)
	}
	wait(time.Minute)
	taint := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true,"taints":[{"key":"broken","effect":"NoExecute"}]}}`))
	if err := d.client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}, taint); err != nil {
		d.Error("taint: ", err)
	}
	wait(5 * time.Minute)
	foreground := metav1.DeletePropagationForeground
	err = d.client.Delete(ctx, named("apps/v1", "Deployment", "default", "web"),
		client.PropagationPolicy(foreground))
	assert.NoError(d, err)
	orphan := metav1.DeletePropagationOrphan
	err = d.client.Delete(ctx, named("v1", "ReplicationController", "default", "old"),
		client.PropagationPolicy(orphan))
	assert.NoError(d, err)
	d.remove(named("v1", "Namespace", "", "team"), named("v1", "Service", "default", "balanced"),
		named("apps/v1", "StatefulSet", "default", "db"),
		named("v1", "PersistentVolumeClaim", "default", "data-db-0"), named("v1", "PersistentVolume", "", "spare"),
		named("storage.k8s.io/v1", "VolumeAttributesClass", "", "fast"),
		named("v1", "ServiceAccount", "default", "robot"),
		named("networking.k8s.io/v1", "ServiceCIDR", "", "more"),
		named("v1", "ConfigMap", "kube-public", "kube-root-ca.crt"),
		named("networking.k8s.io/v1", "IPAddress", "", "10.0.0.1"),
		named("apiregistration.k8s.io/v1", "APIService", "", "v1.apps"),
		named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.example.com"))
	err = d.client.Patch(ctx, named("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "", "probes"),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"matchingPrecedence":3}}`)))
	assert.NoError(d, err)
	wait(5 * time.Minute)
	// A node that disappears with its pods.
	d.remove(named("v1", "Node", "", "node-1"), named("batch/v1", "CronJob", "default", "often"),
		named("autoscaling/v2", "HorizontalPodAutoscaler", "default", "web"))
	wait(70 * time.Minute) // answered certificate requests expire after an hour
}

// The table of the writes of the control plane's own components is complete: it has everything that
// audit records about them, and their roles allow all that they do.
func TestWritesOfComponents(t *testing.T) {
	require.Long(t, "drives all controllers")
	synctest.Test(t, func(t *testing.T) {
		d := drive(t)
		d.everything()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, refused := range d.refused {
			t.Errorf("refused: %s", refused)
		}
		for who := range d.writes {
			if !machine(who) && who != "tester" {
				t.Errorf("%s wrote %v", who, slices.Sorted(maps.Keys(d.writes[who])))
			}
		}
		wanted := map[string]map[string]bool{}
		for _, c := range identity.Components() {
			for _, w := range c.Writes {
				if wanted[c.User] == nil {
					wanted[c.User] = map[string]bool{}
				}
				wanted[c.User][w] = true
			}
		}
		for who, writes := range d.writes {
			for _, w := range slices.Sorted(maps.Keys(writes)) {
				verb, _, _ := strings.Cut(w, " ")
				if machine(who) && !wanted[who][w] && !wanted[who][verb+" *"] {
					t.Errorf("identity.Components lacks: %s: %s", who, w)
				}
			}
		}
		rare := map[string]bool{}
		for _, c := range identity.Components() {
			for _, w := range c.Rare {
				rare[c.User+w] = true
			}
		}
		for who, writes := range wanted {
			for _, w := range slices.Sorted(maps.Keys(writes)) {
				if !d.writes[who].has(w) && !rare[who+w] {
					t.Errorf("not seen: %s: %s", who, w)
				}
			}
		}
		d.unseen()
	})
}

// unseen reports the objects that were stored without an audit record, except those of
// identity.Direct.
func (d *driven) unseen() {
	direct := map[string]bool{}
	for _, w := range identity.Direct() {
		direct[w.Resource] = true
	}
	missing := map[string]int{}
	for key := range d.stored {
		parts := strings.SplitN(key, "/", 3)
		if !d.keys[key] && !d.keys[parts[0]+"/"+parts[1]+"/*"] && !d.keys[parts[0]+"/"+parts[1]+"/"] &&
			!direct[parts[0]] {
			missing[parts[0]]++
		}
	}
	for resource, n := range missing {
		d.Errorf("%d objects of %s were stored without an audit record", n, resource)
	}
}

var updateDocs = flag.Bool("update", false, "update docs/reference/security.md")

const securityPage = "../docs/reference/security.md"

// The page about security has the tables of components and of direct writes; -update writes them.
func TestPageHasTables(t *testing.T) {
	have, err := os.ReadFile(securityPage)
	require.NoError(t, err)
	want := between(string(have), "<!-- components -->", components())
	want = between(want, "<!-- direct -->", directWrites())
	switch {
	case *updateDocs:
		require.NoError(t, os.WriteFile(securityPage, []byte(want), 0o666))
	case want != string(have):
		t.Errorf("%s is out of date: run go test ./kubernetes/controllers -run TestPageHasTables -update", securityPage)
	}
}

// between replaces the text between a mark and the next end mark.
func between(text, mark, content string) string {
	before, rest, _ := strings.Cut(text, mark+"\n")
	_, after, _ := strings.Cut(rest, "<!-- end -->\n")
	return before + mark + "\n" + content + "<!-- end -->\n" + after
}

func components() string {
	var b strings.Builder
	b.WriteString("| component | user | role | writes |\n|---|---|---|---|\n")
	for _, c := range identity.Components() {
		writes := map[string][]string{} // verbs by resource
		for _, w := range c.Writes {
			verb, resource, _ := strings.Cut(w, " ")
			writes[resource] = append(writes[resource], verb)
		}
		var parts []string
		for _, resource := range slices.Sorted(maps.Keys(writes)) {
			parts = append(parts, "`"+resource+"` "+strings.Join(writes[resource], ", "))
		}
		fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s |\n", c.Name, c.User, c.Role, strings.Join(parts, "; "))
	}
	return b.String()
}

func directWrites() string {
	var b strings.Builder
	b.WriteString("| objects | write | why |\n|---|---|---|\n")
	for _, w := range identity.Direct() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", w.Resource, w.What, w.Why)
	}
	return b.String()
}

// Without the modes RBAC and Node, the components work, and users with their names have no rights.
func TestComponentsWithoutRBAC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := startPlane(t, controlplane.Config{
			Authorization: controlplane.Authorization{Modes: []string{authz.ModeAlwaysDeny}},
			Node:          controlplane.Simulated{Lease: controlplane.NodeLease},
		})
		time.Sleep(time.Minute)
		for _, key := range []store.Key{
			{Resource: "serviceaccounts", Namespace: "default", Name: "default"}, {Resource: "nodes", Name: "kelson"},
			{Resource: "leases.coordination.k8s.io", Namespace: "kube-node-lease", Name: "kelson"},
		} {
			if plane.Store().Snapshot().Get(key) == nil {
				t.Errorf("%v does not exist", key)
			}
		}
		collector := identity.Controller("generic-garbage-collector")
		impostor := &user.DefaultInfo{Name: collector.GetName(), Groups: collector.GetGroups()}
		for _, u := range []user.Info{collector, impostor} {
			c, err := client.New(client.Config{REST: plane.RESTConfigAs(u)})
			require.NoError(t, err)
			_, err = client.List[corev1.Pod](t.Context(), c)
			assert.Equalf(t, err == nil, identity.IsComponent(u), "%T: %v", u, err)
		}
	})
}

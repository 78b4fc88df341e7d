package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// For every served version of every kind, with every field set, all encodings decode to the same
// hub, and the hub does not change when it is stored, loaded and converted to any version.
func TestRoundTrip(t *testing.T) {
	list, err := Resources(Config{})
	require.NoError(t, err)
	for _, r := range list {
		// k8s.io/api has no sample of it; see TestAPIServices
		if r.Group == "apiregistration.k8s.io" {
			continue
		}
		for _, version := range r.Versions {
			t.Run(r.Plural+"."+version.Name+"."+r.Group, func(t *testing.T) { roundTrip(t, r, version.Name) })
		}
	}
}

func roundTrip(t *testing.T, r *resource.Resource, version string) {
	hub := decode(t, r, version, resource.MediaJSON, sample(t, r.Group, version, r.Kind, "json"))
	for media, ext := range map[string]string{resource.MediaYAML: "yaml", resource.MediaProtobuf: "pb"} {
		if other := decode(t, r, version, media, sample(t, r.Group, version, r.Kind, ext)); canonical(t,
			r, hub) != canonical(t, r, other) {
			t.Errorf("%s decodes to another hub:\n%s\n%s", media, canonical(t, r, hub), canonical(t, r, other))
		}
	}
	versioned, err := r.Codec.ToVersion(hub, version)
	require.NoError(t, err)
	assert.Equalf(t, versioned.GetObjectKind().GroupVersionKind(), r.GVK(version), "converted to")
	var inCBOR bytes.Buffer
	require.NoError(t, cbor.NewSerializer(Scheme(), Scheme()).Encode(versioned, &inCBOR))
	if other := decode(t, r, version, resource.MediaCBOR, inCBOR.Bytes()); canonical(t, r, hub) != canonical(t, r,
		other) {
		t.Errorf("CBOR decodes to another hub:\n%s\n%s", canonical(t, r, hub), canonical(t, r, other))
	}
	before := hub.DeepCopyObject()
	stored, err := r.Codec.Store(hub)
	require.NoError(t, err)
	if !equality.Semantic.DeepEqual(before, hub) {
		t.Errorf("Store changed the hub")
	}
	loaded, err := r.Codec.Load(stored)
	require.NoError(t, err)
	again, err := r.Codec.ToVersion(loaded, version)
	require.NoError(t, err)
	if a, b := mustJSON(t, versioned), mustJSON(t, again); a != b {
		t.Errorf("after Store and Load:\n got %s\nwant %s", b, a)
	}
	back, err := r.Codec.FromVersion(again)
	require.NoError(t, err)
	if a, b := canonical(t, r, loaded), canonical(t, r, back); a != b {
		t.Errorf("FromVersion returns another hub:\n%s\n%s", a, b)
	}
}

// canonical is the stored form with sorted keys and without formatting, in embedded objects too.
func canonical(t testing.TB, r *resource.Resource, hub runtime.Object) string {
	t.Helper()
	stored, err := r.Codec.Store(hub)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(stored, &v))
	// autoscaling/v1 stores the fields that it lacks in annotations. In them, a missing quantity
	// becomes zero.
	return strings.ReplaceAll(mustJSON(t, v), `,"averageValue":"0"`, "")
}

func decode(t testing.TB, r *resource.Resource, version, media string, body []byte) runtime.Object {
	t.Helper()
	hub, strict, err := r.Codec.Decode(body, media, version)
	if err != nil || len(strict) > 0 {
		t.Fatalf("decode %s: %v %v", media, strict, err)
	}
	return hub
}

// A write in a version that lacks a field keeps the field's value for the versions that have it.
func TestVersionsOfAutoscaler(t *testing.T) {
	r := resources(t, Config{})("autoscaling", "horizontalpodautoscalers")
	hub := decode(t, r, "v2", resource.MediaYAML, []byte(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}
  maxReplicas: 3
  metrics:
  - {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}
`))
	old, err := r.Codec.ToVersion(hub, "v1")
	require.NoError(t, err)
	back, err := r.Codec.FromVersion(old)
	require.NoError(t, err)
	stored, err := r.Codec.Store(back)
	require.NoError(t, err)
	if !bytes.Contains(stored, []byte(`"apiVersion":"autoscaling/v2"`)) ||
		!bytes.Contains(stored, []byte(`"averageUtilization":50`)) {
		t.Errorf("stored %s", stored)
	}
}

// Decoding sets the defaults in Pods, Services and Secrets, and the stored form of a Deployment
// contains them.
func TestDefaults(t *testing.T) {
	find := resources(t, Config{})
	p := decode(t, find("", "pods"), "v1", resource.MediaYAML,
		[]byte(`{metadata: {name: p}, spec: {containers: [{name: c, image: busybox}]}}`)).(*core.Pod)
	c := p.Spec.Containers[0]
	if p.Spec.RestartPolicy != core.RestartPolicyAlways || *p.Spec.TerminationGracePeriodSeconds != 30 ||
		p.Spec.DNSPolicy != core.DNSClusterFirst ||
		p.Spec.SchedulerName != "default-scheduler" || c.ImagePullPolicy != core.PullAlways ||
		c.TerminationMessagePath != "/dev/termination-log" ||
		!*p.Spec.EnableServiceLinks {
		t.Errorf("pod defaults: %+v", p.Spec)
	}
	s := decode(t, find("", "services"), "v1", resource.MediaYAML,
		[]byte(`{metadata: {name: s}, spec: {ports: [{port: 80}]}}`)).(*core.Service)
	if port := s.Spec.Ports[0]; s.Spec.Type != core.ServiceTypeClusterIP || port.Protocol != core.ProtocolTCP ||
		port.TargetPort.IntValue() != 80 ||
		s.Spec.SessionAffinity != core.ServiceAffinityNone ||
		*s.Spec.InternalTrafficPolicy != core.ServiceInternalTrafficPolicyCluster {
		t.Errorf("service defaults: %+v", s.Spec)
	}
	secret := decode(t, find("", "secrets"), "v1", resource.MediaJSON,
		[]byte(`{"metadata":{"name":"s"}}`)).(*core.Secret)
	assert.Equalf(t, secret.Type, core.SecretTypeOpaque, "secret type")
	stored, err := find("apps", "deployments").Codec.Store(decode(t, find("apps", "deployments"), "v1",
		resource.MediaYAML, []byte(
			`{metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)))
	require.NoError(t, err)
	for _, want := range []string{`{"kind":"Deployment","apiVersion":"apps/v1",`, `"replicas":1`,
		`"revisionHistoryLimit":10`, `"progressDeadlineSeconds":600`, `"maxSurge":"25%"`} {
		if !bytes.Contains(stored, []byte(want)) {
			t.Errorf("stored deployment lacks %s: %s", want, stored)
		}
	}
}

// Unknown and duplicate fields are returned as strict errors. Wrong kinds, versions, types and
// syntax are bad requests whose message gives the cause.
func TestDecodeErrors(t *testing.T) {
	find := resources(t, Config{})
	tests := []struct {
		name, group, plural, version, media, body string
		strict                                    []string
		err                                       string
	}{
		{name: "unknown and duplicate fields", plural: "pods", version: "v1", media: resource.MediaJSON,
			body:   `{"kind":"Pod","apiVersion":"v1","spec":{"foo":1,"nodeName":"a","nodeName":"b"}}`,
			strict: []string{`unknown field "spec.foo"`, `duplicate field "spec.nodeName"`}},
		{name: "unknown and duplicate fields in YAML", plural: "pods", version: "v1", media: resource.MediaYAML,
			body: "kind: Pod\napiVersion: v1\nspec:\n  foo: 1\n  nodeName: a\n  nodeName: b\n",
			strict: []string{`yaml: unmarshal errors:` + "\n" + `  line 6: key "nodeName" already set in map`,
				`unknown field "spec.foo"`}},
		{name: "version of another group", group: "apps", plural: "deployments", version: "v1",
			media: resource.MediaJSON,
			body:  `{"kind":"Deployment","apiVersion":"apps/v1beta1"}`,
			err:   `the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)`},
		{name: "another kind", plural: "pods", version: "v1", media: resource.MediaJSON,
			body: `{"kind":"Secret","apiVersion":"v1"}`,
			err:  `Secret in version "v1" cannot be handled as a Pod: converting (v1.Secret) to (core.Pod): unknown conversion`},
		{name: "an unknown kind", plural: "pods", version: "v1", media: resource.MediaJSON,
			body: `{"kind":"Foo","apiVersion":"v1"}`,
			err:  `Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme`},
		{name: "a wrong type", plural: "pods", version: "v1", media: resource.MediaJSON,
			body: `{"kind":"Pod","apiVersion":"v1","spec":{"containers":{}}}`,
			err:  `Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container`},
		{name: "no JSON", plural: "pods", version: "v1", media: resource.MediaJSON, body: `hello`,
			err: `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value (68656c6c6f)`},
		{name: "nothing", plural: "pods", version: "v1", media: resource.MediaJSON,
			err: `the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hub, strict, err := find(tt.group, tt.plural).Codec.Decode([]byte(tt.body), tt.media, tt.version)
			if tt.err != "" {
				if !apierrors.IsBadRequest(err) || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("error\n     %v\nwant %s", err, tt.err)
				}
				return
			}
			if err != nil || hub == nil {
				t.Fatal(hub, err)
			}
			var got []string
			for _, e := range strict {
				got = append(got, e.Error())
			}
			assert.Slicef(t, got, tt.strict, "strict")
		})
	}
}

func TestDecodePatched(t *testing.T) {
	r := resources(t, Config{})("", "configmaps")
	if _, strict, err := r.Codec.DecodePatched(
		[]byte(`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"},"foo":1}`), "v1"); err != nil ||
		len(strict) != 1 {
		t.Errorf("strict %v, error %v", strict, err)
	}
	_, _, err := r.Codec.DecodePatched([]byte(`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":1}}`), "v1")
	assert.ErrorContains(t, err, "cannot unmarshal number into Go struct field ConfigMap.data of type string")
}

func TestPatchMeta(t *testing.T) {
	meta, ok := resources(t, Config{})("", "pods").Codec.PatchMeta("v1")
	if !ok {
		t.Fatal("pods have no patch metadata")
	}
	spec, _, err := meta.LookupPatchMetadataForStruct("spec")
	require.NoError(t, err)
	_, containers, err := spec.LookupPatchMetadataForSlice("containers")
	if err != nil || containers.GetPatchMergeKey() != "name" {
		t.Errorf("merge key %q, %v", containers.GetPatchMergeKey(), err)
	}
}

// Events are served in two groups as the same objects.
func TestEvents(t *testing.T) {
	find := resources(t, Config{})
	old, other := find("", "events"), find("events.k8s.io", "events")
	if old.Prefix() != other.Prefix() {
		t.Fatalf("stored under %s and %s", old.Prefix(), other.Prefix())
	}
	hub := decode(t, other, "v1", resource.MediaYAML,
		[]byte(`{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e, namespace: default}, note: hi, regarding: {kind: Pod, name: p}}`))
	stored, err := other.Codec.Store(hub)
	require.NoError(t, err)
	hub, err = old.Codec.Load(stored)
	require.NoError(t, err)
	versioned, err := old.Codec.ToVersion(hub, "v1")
	require.NoError(t, err)
	if e := versioned.(*corev1.Event); e.Message != "hi" || e.InvolvedObject.Name != "p" || e.APIVersion != "v1" {
		t.Errorf("as core event: %+v", e)
	}
	if versioned, err = other.Codec.ToVersion(hub, "v1"); err != nil ||
		versioned.GetObjectKind().GroupVersionKind() != (schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1",
			Kind: "Event"}) {
		t.Errorf("as event: %+v, %v", versioned, err)
	}
}

func TestFieldSelectors(t *testing.T) {
	find := resources(t, Config{})
	pods := find("", "pods")
	label, _, err := pods.FieldLabel("v1", "spec.host", "n")
	if err != nil || label != "spec.nodeName" {
		t.Errorf("spec.host is %q, %v", label, err)
	}
	if _, _, err := pods.FieldLabel("v1", "spec.foo", "x"); err == nil ||
		err.Error() != "field label not supported: spec.foo" {
		t.Errorf("error %v", err)
	}
	if _, _, err := find("", "configmaps").FieldLabel("v1", "data", "x"); err == nil ||
		err.Error() != `"data" is not a known field selector: only "metadata.name", "metadata.namespace"` {
		t.Errorf("error %v", err)
	}
	hub := decode(t, pods, "v1", resource.MediaJSON, sample(t, "", "v1", "Pod", "json"))
	if set := pods.Fields(hub); set["spec.nodeName"] == "" || set["metadata.name"] == "" {
		t.Errorf("fields %v", set)
	}
}

// The table of a Pod shows the ready containers, the reason of a waiting container, the restarts,
// the IP address and the node.
func TestTable(t *testing.T) {
	r := resources(t, Config{})("", "pods")
	hub := decode(t, r, "v1", resource.MediaYAML, []byte(`
metadata: {name: web, namespace: default}
spec: {nodeName: n1, containers: [{name: a, image: i}, {name: b, image: i}]}
status:
  phase: Running
  podIPs: [{ip: 10.1.2.3}]
  containerStatuses: [{name: a, ready: true, restartCount: 2, state: {running: {}}}, {name: b, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}}]
`))
	got, err := r.Table("v1").ConvertToTable(t.Context(), hub, &metav1.TableOptions{})
	require.NoError(t, err)
	var columns []string
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	want := []string{"Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"}
	assert.Slicef(t, columns, want, "columns")
	if cells := mustJSON(t, got.Rows[0].Cells); cells != `["web","1/2","CrashLoopBackOff","3","\u003cunknown\u003e","10.1.2.3","n1","\u003cnone\u003e","\u003cnone\u003e"]` {
		t.Errorf("cells %s", cells)
	}
}

// Hubs and served versions share no memory: modifying one does not modify the other.
func TestToVersionSharesNothing(t *testing.T) {
	r := resources(t, Config{})("", "configmaps")
	hub := decode(t, r, "v1", resource.MediaJSON, []byte(`{"metadata":{"labels":{"a":"b"}},"data":{"k":"v"}}`)).(*core.ConfigMap)
	versioned, err := r.Codec.ToVersion(hub, "v1")
	require.NoError(t, err)
	versioned.(*corev1.ConfigMap).Data["k"] = "changed"
	versioned.(*corev1.ConfigMap).Labels["a"] = "changed"
	if hub.Data["k"] != "v" || hub.Labels["a"] != "b" {
		t.Error("the hub changed with its copy")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"a"}]}}`))
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v2"}`))
	f.Add([]byte(`[]`))
	r := resources(f, Config{})("", "pods")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, media := range []string{resource.MediaJSON, resource.MediaYAML, resource.MediaProtobuf,
			resource.MediaCBOR} {
			hub, _, err := r.Codec.Decode(body, media, "v1")
			if (hub == nil) == (err == nil) {
				t.Errorf("%s: hub %v with error %v", media, hub, err)
			}
			if err == nil {
				if stored, err := r.Codec.Store(hub); err != nil || !json.Valid(stored) {
					t.Errorf("%s: store: %v", media, err)
				}
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	r := resources(b, Config{})("", "pods")
	stored, err := r.Codec.Store(decode(b, r, "v1", resource.MediaYAML,
		[]byte(`{metadata: {name: p}, spec: {containers: [{name: c, image: busybox}]}}`)))
	require.NoError(b, err)
	for b.Loop() {
		_, err = r.Codec.Load(stored)
		require.NoError(b, err)
	}
}

// BenchmarkProtobuf encodes a stored Event in protobuf, as a list does: with a hub, and without.
func BenchmarkProtobuf(b *testing.B) {
	r := resources(b, Config{})("", "events")
	stored, err := r.Codec.Store(decode(b, r, "v1", resource.MediaYAML, []byte(`{metadata: {name: e, namespace: default, managedFields: [{manager: m,
		operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:count": {}, "f:message": {}}}]}, type: Normal, reason: Started,
		message: Started container, involvedObject: {apiVersion: v1, kind: Pod, namespace: default, name: p}, source: {component: kubelet}, count: 1,
		firstTimestamp: "2026-01-02T03:04:05Z", lastTimestamp: "2026-01-02T03:04:05Z"}`)))
	require.NoError(b, err)
	for name, load := range map[string]func() (runtime.Object, error){
		"hub": func() (runtime.Object, error) {
			hub, err := r.Codec.Load(stored)
			if err != nil {
				return nil, err
			}
			return r.Codec.ToVersion(hub, "v1")
		},
		"direct": func() (runtime.Object, error) {
			versioned, ok := r.Codec.(resource.Direct).Stored(stored)
			if !ok {
				return nil, errors.New("not decoded")
			}
			return versioned, nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				versioned, err := load()
				require.NoError(b, err)
				_, err = versioned.(*corev1.Event).Marshal()
				require.NoError(b, err)
			}
		})
	}
}

package internal_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/internal/protodecode"
)

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// sharedOfProtodecode is a Sharing that retains all values.
type sharedOfProtodecode struct {
	texts map[string]string
	parts *protodecode.Parts
}

func newShared() *sharedOfProtodecode {
	return &sharedOfProtodecode{map[string]string{}, &protodecode.Parts{}}
}

func (s *sharedOfProtodecode) Parts() *protodecode.Parts { return s.parts }

func (s *sharedOfProtodecode) Text(b []byte) string {
	text, ok := s.texts[string(b)]
	if !ok {
		if len(s.texts) > 512 {
			clear(s.texts)
		}
		text = string(b)
		s.texts[text] = text
	}
	return text
}

// This package decodes all built-in kinds, with the result of the generated code.
func TestKinds(t *testing.T) {
	random := newFiller(1)
	kinds := 0
	for kind, typ := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(typ).Interface().(message); !ok {
			continue
		}
		kinds++
		for range 5 {
			original := reflect.New(typ).Interface().(message)
			random.Fill(original)
			raw, err := original.Marshal()
			require.NoErrorf(t, err, "%s", kind)
			if !same(t, typ, raw, nil) {
				t.Errorf("%s is not read", kind)
			}
			share := newShared()
			for range 3 { // the second time with values shared from the first
				same(t, typ, raw, share)
			}
		}
		same(t, typ, nil, nil)
	}
	if kinds < 500 {
		t.Errorf("only %d kinds", kinds)
	}
}

// same compares the results of this package and of the generated code for raw, and reports whether
// this package decoded it.
func same(t *testing.T, typ reflect.Type, raw []byte, share protodecode.Sharing) bool {
	t.Helper()
	got, want := reflect.New(typ).Interface(), reflect.New(typ).Interface().(message)
	data := append([]byte(nil), raw...)
	ok := protodecode.Decode(data, got, share)
	for n := range data {
		data[n] = '?' // Decode must not retain the data
	}
	if !ok {
		return false
	}
	if err := want.Unmarshal(raw); err != nil {
		t.Errorf("%s: %q was read, and is refused: %v", typ, raw, err)
	} else if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %q\nis   %+v\nwant %+v", typ, raw, got, want)
	}
	return true
}

func newFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "1", "100m", "1.5Gi", "123456789012345678901234567890", "-5", "1e3",
				"0.1"}[c.Intn(8)])
		},
		func(at *metav1.Time, c randfill.Continue) {
			if c.Bool() {
				at.Time = time.Unix(c.Int63n(1<<33), 0)
			}
		},
		func(at *metav1.MicroTime, c randfill.Continue) { at.Time = time.Unix(c.Int63n(1<<33), c.Int63n(1e9)) },
		func(raw *runtime.RawExtension, c randfill.Continue) { raw.Raw = []byte(c.String(9)) },
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString([]string{"", `{}`, `{"f:a":{}}`}[c.Intn(3)])
		},
		func(p *intstr.IntOrString, c randfill.Continue) {
			*p = intstr.Parse(fmt.Sprint(c.Intn(99), "%"[c.Intn(2):]))
		},
	)
}

// For any bytes, the result equals that of the generated code; input that the generated code
// rejects is rejected.
func FuzzPod(f *testing.F) {
	random := newFiller(2)
	add := func(m message) {
		raw, err := m.Marshal()
		require.NoError(f, err)
		f.Add(raw)
	}
	for n := range 3 {
		add(newPod(n))
		var pod corev1.Pod
		var secret corev1.Secret
		var job batchv1.Job
		var slice resourcev1.ResourceSlice
		for _, m := range []message{&pod, &secret, &job, &slice} {
			random.Fill(m)
			add(m)
		}
	}
	for _, seed := range malformed {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		share := newShared()
		for _, typ := range []reflect.Type{
			reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Secret](), reflect.TypeFor[batchv1.Job](),
			reflect.TypeFor[resourcev1.ResourceSlice](),
			reflect.TypeFor[corev1.Container](), reflect.TypeFor[metav1.ObjectMeta](),
			reflect.TypeFor[corev1.PodSecurityContext](),
		} {
			for range 3 {
				if same(t, typ, raw, share) != same(t, typ, raw, nil) {
					t.Errorf("%s: read only with or without sharing: %q", typ, raw)
				}
			}
		}
	})
}

// Fields of a Pod begin with 0x0a (metadata), 0x12 (spec) and 0x1a (status); the name in metadata
// is 0x0a.
var malformed = []string{
	"\x0a", "\x0a\x05", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", // lengths
	// within others, wire types, groups, no number
	"\x0a\x02\x0a\x01", "\x08\x01", "\x0b\x0c", "\x0c", "\x0f", "\x00", "\x02\x00",
	// again, and out of order
	"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b", "\x12\x00\x0a\x00", "\x0a\x06\x0a\x01a\x0a\x01b",
	// tags that are too large or too long
	"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\x00", "\x8a\x80\x80\x80\x80\x80\x80\x80\x80\x7e\x00", "\x8a\x00\x00",
	"\xfa\x01\x00\xfa\x01\x00", "\xf8\x01\x01", "\xf9\x0112345678", "\xf9\x01123", "\xfd\x011234", "\xfd\x0112", "\xf8\x01\xff", // unknown
	"\x0a\x02\x5a\x00", "\x0a\x07\x5a\x05\x0a\x01a\x12\x00", "\x0a\x07\x5a\x05\x12\x00\x0a\x01a", "\x0a\x09\x5a\x07\x0a\x01a\x12\x00\x18\x00", // labels
}

// Malformed and unusual input is left to the generated code.
func TestMalformed(t *testing.T) {
	for _, raw := range malformed {
		same(t, reflect.TypeFor[corev1.Pod](), []byte(raw), nil)
	}
	raw, err := newPod(1).Marshal()
	require.NoError(t, err)
	for n := range raw { // prefixes of it, and the message with one bit flipped
		same(t, reflect.TypeFor[corev1.Pod](), raw[:n], nil)
		turned := append([]byte(nil), raw...)
		turned[n] ^= 1 << rand.Intn(8)
		same(t, reflect.TypeFor[corev1.Pod](), turned, nil)
	}
	for _, into := range []any{nil, corev1.Pod{}, (*corev1.Pod)(nil), new(string), &ownOfProtodecode{},
		&resource.Quantity{}} {
		if protodecode.Decode(raw, into, nil) {
			t.Errorf("%T was decoded", into)
		}
	}
	if protodecode.Decode([]byte("\x0a\x06\x0a\x01a\x0a\x01b"), &corev1.Pod{}, nil) {
		t.Error("a duplicate field was decoded")
	}
}

// ownOfProtodecode has a custom protobuf encoding.
type ownOfProtodecode struct {
	Name string `protobuf:"bytes,1,opt,name=name"`
}

func (*ownOfProtodecode) Unmarshal([]byte) error { return nil }

// Unknown fields are dropped.
func TestUnknownFields(t *testing.T) {
	raw, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "a"}}).Marshal()
	require.NoError(t, err)
	for _, more := range []string{"\xfa\x01\x01a\xfa\x01\x01b", "\xf8\x01\x80\x01\x85\x02abcd", "\xf9\x01abcdefgh"} {
		if !same(t, reflect.TypeFor[corev1.Pod](), append(raw[:len(raw):len(raw)], more...), nil) {
			t.Errorf("%q is not read", more)
		}
	}
}

// Parts that were decoded twice are shared from then on, except items of lists, whose kinds are set
// later.
func TestParts(t *testing.T) {
	raw, err := newPod(1).Marshal()
	require.NoError(t, err)
	share := newShared()
	read := func() (pod corev1.Pod) {
		if !protodecode.Decode(raw, &pod, share) {
			t.Fatal("was not decoded")
		}
		return pod
	}
	first, second, third, fourth := read(), read(), read(), read()
	if &first.Spec.Containers[0] == &second.Spec.Containers[0] {
		t.Error("parts that occur once are retained")
	}
	if &second.Spec.Containers[0] != &third.Spec.Containers[0] ||
		third.Spec.SecurityContext != fourth.Spec.SecurityContext ||
		reflect.ValueOf(third.Annotations).Pointer() != reflect.ValueOf(fourth.Annotations).Pointer() {
		t.Error("equal parts are not shared")
	}
	third.Spec.Containers = append(third.Spec.Containers, corev1.Container{Name: "more"})
	if !reflect.DeepEqual(fourth, first) || len(read().Spec.Containers) != 2 {
		t.Error("appending to a shared slice changes another one")
	}
	// Equal bytes of different fields are not shared: limits are not requests.
	for n := range 2000 { // more than the cache retains
		pod := newPod(n)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: pod.Spec.Containers[1].Resources.Limits}
		pod.Spec.NodeSelector, pod.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
		raw, err := pod.Marshal()
		require.NoError(t, err)
		for range 2 { // the second time from the cache
			if !same(t, reflect.TypeFor[corev1.Pod](), raw, share) {
				t.Fatal("was not decoded")
			}
		}
	}
	list := &corev1.PodList{Items: []corev1.Pod{{}}}
	raw, err = list.Marshal()
	require.NoError(t, err)
	seen := map[*corev1.Pod]bool{}
	for range 4 {
		var list corev1.PodList
		if !protodecode.Decode(raw, &list, share) {
			t.Fatal("was not decoded")
		}
		seen[&list.Items[0]] = true
	}
	assert.Equalf(t, len(seen), 4, "items are shared")
}

// newPod returns the n-th of many similar Pods.
func newPod(n int) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "default", fmt.Sprintf("pod-%05d", n), "0dfc1d54-6f2f-4d05-8fe9-f9d4bd1c1d86"
	p.CreationTimestamp, p.ResourceVersion = metav1.Time{Time: time.Unix(1e9, 0)}, fmt.Sprint(100000+n)
	p.Labels = map[string]string{"app": fmt.Sprint("app-", n%50),
		"pod-template-hash": fmt.Sprintf("%x", int64(n/50)*2654435761), "tier": "backend"}
	p.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
		"checksum/config": fmt.Sprintf("%064x", n*40503)}
	fields := `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{}},"f:labels":{".":{},"f:app":{}}},"f:spec":{}}`
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "bench", Operation: "Update", APIVersion: "v1", Time: &metav1.Time{Time: time.Unix(1e9, 0)},
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(fields),
	}}
	for c, name := range []string{"main", "sidecar"} {
		container := corev1.Container{
			Name: name, Image: fmt.Sprintf("registry.example.com/team-%d/%s:v1.%d.0", n%20, name, n%30),
			Args: []string{"--listen", fmt.Sprint(":", 8080+c), "--log-level=info", fmt.Sprintf("--shard=%d", n)},
			Ports: []corev1.ContainerPort{{Name: fmt.Sprint("http-", c), ContainerPort: int32(8080 + c),
				Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true},
				{Name: "data", MountPath: "/data"}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			ImagePullPolicy: "IfNotPresent",
		}
		for e := range 6 {
			container.Env = append(container.Env,
				corev1.EnvVar{Name: fmt.Sprint("SETTING_", e),
					Value: fmt.Sprintf("value of the setting %d of %s", e, name)})
		}
		probe := func(path string) *corev1.Probe {
			p := &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1,
				FailureThreshold: 3}
			p.HTTPGet = &corev1.HTTPGetAction{Path: path, Scheme: "HTTP",
				Port: intstr.FromString(fmt.Sprint("http-", c))}
			return p
		}
		container.LivenessProbe, container.ReadinessProbe = probe("/healthz"), probe("/readyz")
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "config"}, {Name: "data"}}
	p.Spec.Volumes[0].ConfigMap = &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}
	p.Spec.Volumes[1].EmptyDir = &corev1.EmptyDirVolumeSource{}
	p.Spec.RestartPolicy, p.Spec.DNSPolicy, p.Spec.SchedulerName = "Always", "ClusterFirst", "default-scheduler"
	p.Spec.SecurityContext, p.Spec.TerminationGracePeriodSeconds,
		p.Spec.EnableServiceLinks = &corev1.PodSecurityContext{}, new(int64), new(bool)
	p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "default", "default"
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists",
		Effect: "NoExecute", TolerationSeconds: new(int64)}}
	p.Status.Phase, p.Status.QOSClass = "Pending", "Burstable"
	return p
}

// BenchmarkPod decodes a thousand Pods in turn.
func BenchmarkPod(b *testing.B) {
	raws := make([][]byte, 1000)
	for n := range raws {
		raws[n], _ = newPod(n).Marshal()
	}
	share, texts := newShared(), newShared()
	texts.parts = nil
	for _, way := range []struct {
		name   string
		decode func([]byte, *corev1.Pod) bool
	}{
		{"generated", func(raw []byte, pod *corev1.Pod) bool { return pod.Unmarshal(raw) == nil }},
		{"alone", func(raw []byte, pod *corev1.Pod) bool { return protodecode.Decode(raw, pod, nil) }},
		{"texts", func(raw []byte, pod *corev1.Pod) bool { return protodecode.Decode(raw, pod, texts) }},
		{"shared", func(raw []byte, pod *corev1.Pod) bool { return protodecode.Decode(raw, pod, share) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if !way.decode(raws[n%len(raws)], &corev1.Pod{}) {
					b.Fatal("was not decoded")
				}
			}
		})
	}
}

package client

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/require"
)

// Fields that a server dropped are found, wherever they are.
func TestDropped(t *testing.T) {
	make := func() *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}}}
		d.Spec.Replicas, d.Spec.Paused = new(int32(3)), true
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1))}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}, {Name: "more", Args: []string{"-v"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		d.Status.Replicas = 3
		return d
	}
	for want, change := range map[string]func(*appsv1.Deployment){
		"":                                      func(d *appsv1.Deployment) { d.Labels, d.Status.Replicas = nil, 0 },
		"spec.replicas":                         func(d *appsv1.Deployment) { d.Spec.Replicas = nil },
		"spec.paused":                           func(d *appsv1.Deployment) { d.Spec.Paused = false },
		"spec.selector":                         func(d *appsv1.Deployment) { d.Spec.Selector = nil },
		"spec.strategy.rollingUpdate":           func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate = nil },
		"spec.template.metadata":                func(d *appsv1.Deployment) { d.Spec.Template.Labels = nil },
		"spec.template.spec.containers":         func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil },
		"spec.template.spec.containers[1].args": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Args = nil },
		"spec.template.spec.containers[1].env[0].value": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Env[0].Value = "" },
		"spec.template.spec.volumes[0].emptyDir":        func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes[0].EmptyDir = nil },
	} {
		sent, got := make(), make()
		got.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways // a default
		change(got)
		assert.Equal(t, droppedIn(reflect.ValueOf(sent).Elem(), reflect.ValueOf(got).Elem(), true), want)
	}
}

// A server newer than the Go types of Kubernetes is also detected in protobuf.
func TestMessagesWithUnknownFields(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("PersistentVolume")
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	plain, err := protobufCodec{}.encode(v, kind)
	require.NoError(t, err)
	raw, _, err := open(plain)
	require.NoError(t, err)
	more := envelope(protowire.AppendBytes(protowire.AppendTag(append([]byte(nil), raw...), 99, protowire.BytesType), []byte("new")), kind)
	for _, tt := range []struct {
		data []byte
		want jsondecode.Loss
	}{{plain, jsondecode.Whole}, {more, jsondecode.InElements}} {
		for name, read := range map[string]func([]byte, runtime.Object, schema.GroupVersionKind) error{"new": protobufCodec{}.decodeNew, "old": protobufCodec{}.decode} {
			partials.Delete(reflect.TypeOf(v))
			require.NoError(t, read(tt.data, v, kind))
			assert.Equalf(t, lossOf(v), tt.want, "%s", name)
		}
	}
	partials.Delete(reflect.TypeOf(v))
}

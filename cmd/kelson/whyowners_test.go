package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/cmd/kelson/internal/why"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// An object that no trace has is explained by its nearest owner that a trace has.
func TestWhyOfOwners(t *testing.T) {
	env := testenv.New(t)
	t.Setenv("KUBECONFIG", env.Kubeconfig(t))
	top := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "top"}}
	env.Create(t, top)
	owned := func(name string, owner *corev1.ConfigMap) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}}}}
		env.Create(t, c)
		return c
	}
	owned("leaf", owned("middle", top))
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "alone"}})
	trace := filepath.Join(t.TempDir(), "trace")
	line := `{"id":1,"run":"a","time":"2030-01-02T15:04:05Z","controller":"tops","kind":"Top","namespace":"default","name":"t",` +
		`"writes":[{"verb":"create","kind":"ConfigMap","namespace":"default","name":"top","resourceVersion":"8","changed":true}],"duration":"1ms","repeats":7}` + "\n"
	require.NoError(t, os.WriteFile(trace, []byte(line), 0o600))
	for _, tt := range []struct{ object, want, err string }{
		{object: "configmap/leaf", want: "ConfigMap leaf, owned by ConfigMap middle, owned by ConfigMap top\n\nConfigMap default/top\n"},
		{object: "cm/top", want: "from their traces:\n\nConfigMap default/top\n"},
		{object: "top/t", want: "ConfigMap default/top created, as did 7 more within a second"},
		{object: "configmap/alone", want: "No recorded reconcile involves it or its owners."},
		{object: "configmap/none", err: `the cluster does not show it: configmaps "none" not found`},
	} {
		c := why.Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs([]string{tt.object, "--trace", trace})
		err := c.ExecuteContext(t.Context())
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) ||
			!strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v\n%s", tt.object, err, out.String())
		}
	}
}

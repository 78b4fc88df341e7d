package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/cmd/kelson/internal/blame"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// TestBlame checks who set each field of an object, of any kind.
func TestBlame(t *testing.T) {
	env := testenv.New(t)
	kubeconfig := env.Kubeconfig(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
		Labels: map[string]string{"example.com/tier": "front"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "admin", Port: 8080}}}}
	require.NoError(t, env.Client().Create(t.Context(), service, client.FieldOwner("installer")))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/tier":"back"}}}`))
	require.NoError(t, env.Client().Patch(t.Context(), service, patch, client.FieldOwner("jane")))
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
		StringData: map[string]string{"password": "hush-hush"}})
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "applied",
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"aHVzaC1odXNo"}}`}}})
	env.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unnamed",
		Finalizers: []string{"example.com/a", "example.com/b"}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})

	run := func(args ...string) (string, error) {
		c := blame.Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs(append(args, "--kubeconfig", kubeconfig))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	for _, tt := range []struct {
		args string
		want []string // words of a line, in order
		not  string
		err  string
	}{
		{args: "service/web", want: []string{`.metadata.labels.example.com/tier`, "jane", "Update", `"back"`}},
		// the paths of kelson history
		{args: "svc/web -n default", want: []string{`.spec.ports[admin].name`, "installer", `"admin"`}},
		{args: "svc/web .spec.ports[admin]", want: []string{`.spec.ports[admin].port`, "8080"}, not: "[http]"},
		{args: "service/web .", want: []string{`.spec.type`, "installer"}},
		{args: "service/unnamed", want: []string{`.spec.ports[0].port`, "testenv", "80"}, not: "protocol="},
		{args: "service/unnamed", want: []string{`.metadata.finalizers[1]`, `"example.com/b"`}},
		{args: "service/web .metadata.labels", want: []string{"tier", "jane"}, not: ".spec"},
		{args: "service/web spec.selector", want: []string{`.spec.selector`, "installer", "web"}, not: "ports"},
		{args: "secret/s", want: []string{".data.password", "(hidden)"}, not: "aHVzaC1odXNo"},
		{args: "secret/applied", want: []string{
			".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration", "(hidden)"}, not: "aHVzaC1odXNo"},
		{args: "secret/applied -o json", want: []string{`"hidden": true`}, not: "aHVzaC1odXNo"},
		{args: "service/web .spec.absent", err: "no manager of service/web set a field .spec.absent"},
		{args: "service/absent", err: `services "absent" not found`},
		{args: "gadget/x", err: `the server doesn't have a resource type "gadget"`},
		{args: "service", err: "want KIND/NAME"},
		{args: "service/web -n other", err: `"other" not found`},
	} {
		out, err := run(strings.Fields(tt.args)...)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", tt.args, err)
		}
		found := tt.err != ""
		for line := range strings.Lines(out) {
			rest, all := line, true
			for _, word := range tt.want {
				_, after, ok := strings.Cut(rest, word)
				rest, all = after, all && ok
			}
			found = found || all
		}
		if !found || tt.not != "" && strings.Contains(out, tt.not) {
			t.Errorf("%s: want %q and not %q in\n%s", tt.args, tt.want, tt.not, out)
		}
	}
	out, err := run("service/web", ".spec.type", "-o", "json")
	var got struct {
		Kind, Namespace, Name string
		Fields                []blame.Field
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || got.Kind != "Service" || len(got.Fields) != 1 ||
		got.Fields[0].Value != "ClusterIP" || got.Fields[0].Time.IsZero() {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run("service/web", ".spec.type", "-o", "yaml"); err != nil ||
		!strings.Contains(out, "manager: installer\n") {
		t.Errorf("%v: %s", err, out)
	}
}

package apiserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Errors in the names of plugins have kube-apiserver's wording.
func TestNamesOfPlugins(t *testing.T) {
	table := append(admission.Generic(), admission.Plugin{Name: "Missing"})
	for _, test := range []struct {
		enable, disable []string
		want            string
	}{
		{nil, nil, ""},
		{[]string{"AlwaysDeny"}, []string{"NamespaceLifecycle"}, ""},
		{[]string{"Nonsense"}, nil, `enable-admission-plugins plugin "Nonsense" is unknown`},
		{[]string{"Missing"}, nil, `enable-admission-plugins plugin "Missing" is not implemented`},
		{nil, []string{"Nonsense"}, `disable-admission-plugins plugin "Nonsense" is unknown`},
		{[]string{"AlwaysDeny", "AlwaysAdmit"}, []string{"AlwaysDeny"},
			"[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped"},
	} {
		err := admission.Config{Enable: test.enable, Disable: test.disable}.Check(table)
		assert.Equalf(t, errorText(err), test.want, "enable %v, disable %v", test.enable, test.disable)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// --admission-control-config-file.
func TestReadConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	write("selector.yaml", "a: b")
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	for _, test := range []struct {
		name, text string
		want       map[string]string
		fails      string
	}{
		{"inline and by path", head + `plugins: [{name: PodSecurity, configuration: {kind: X, a: 1}}, {name: PodNodeSelector, path: selector.yaml}, {name: PodSecurity, path: nowhere}, {name: EventRateLimit}]`,
			map[string]string{"PodSecurity": `{"a":1,"kind":"X"}`, "PodNodeSelector": "a: b"}, ""},
		{"legacy", "podNodeSelectorPluginConfig: {a: b}", map[string]string{
			"PodNodeSelector":    "podNodeSelectorPluginConfig: {a: b}",
			"ImagePolicyWebhook": "podNodeSelectorPluginConfig: {a: b}"}, ""},
		{"unknown field", head + "plugin: []", nil, `unknown field "plugin"`},
		{"another kind", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: []", nil,
			"failed to read plugin config: unexpected type"},
		{"missing file", head + "plugins: [{name: PodNodeSelector, path: nowhere}]",
			nil, "couldn't open admission plugin configuration PodNodeSelector"},
		{"nothing", "", nil, "failed to read plugin config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := admission.ReadConfiguration(write("config.yaml", test.text))
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want %s", err, test.fails)
				}
				return
			}
			require.NoError(t, err)
			assert.Equalf(t, len(got), len(test.want), "configurations")
			for name, want := range test.want {
				assert.Equalf(t, string(got[name]), want, "%s", name)
			}
		})
	}
	_, err := admission.ReadConfiguration(filepath.Join(dir, "nowhere"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Without configured webhooks and policies, admission does not allocate.
func TestUnconfiguredAdmissionDoesNotAllocate(t *testing.T) {
	st := storetest.New(t, store.Config{})
	chain, err := admission.New(
		admission.Config{Disable: []string{"NamespaceLifecycle"}}, admission.Generic(),
		admission.Deps{Store: st, Registry: resource.NewRegistry()})
	require.NoError(t, err)
	defer chain.Stop()
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	attributes := upstream.NewAttributesRecord(&corev1.ConfigMap{}, nil, kind, "default", "a",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "",
		upstream.Create, nil, false, nil)
	work := func() {
		if chain.Handles(upstream.Create) {
			t.Fatal("a plugin is active")
		}
		require.NoError(t, errors.Join(chain.Admit(context.Background(), attributes, nil),
			chain.Validate(context.Background(), attributes, nil)))
	}
	work() // the first call computes the empty configuration
	assert.Equalf(t, testing.AllocsPerRun(100, work), 0, "allocations")
}

package explore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// sails returns an operator of Sails, whose definition has two versions.
func sails(t *testing.T, second string) explore.Scenario {
	t.Helper()
	const version = "{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}"
	const fields = "size: {type: integer}, color: {type: string}"
	definition := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: sails.example.com}, " +
		"spec: {group: example.com, scope: Namespaced, names: {kind: Sail, plural: sails}, versions: [" +
		fmt.Sprintf(version, "v1", true, fields) + ", " + fmt.Sprintf(version, "v2", false, second) + "]}}"
	if second == "" {
		definition = strings.Replace(definition, ", "+fmt.Sprintf(version, "v2", false, second), "", 1)
	}
	file := filepath.Join(t.TempDir(), "sails.yaml")
	require.NoError(t, os.WriteFile(file, []byte(definition), 0o600))
	sail := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": "red", "size": int64(3)}}}
	sail.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Sail"})
	sail.SetName("main")
	return explore.Scenario{
		Env: []testenv.Option{testenv.CRDs(file)},
		Operator: func(ctx context.Context, config *rest.Config) error {
			c, err := client.New(client.Config{REST: config})
			for err == nil && ctx.Err() == nil {
				current := sail.DeepCopy()
				current.SetNamespace("default")
				if c.Get(ctx, client.KeyOf(current), current) == nil {
					color, _, _ := unstructured.NestedString(current.Object, "spec", "color")
					err = put(ctx, c, "paint", map[string]string{"color": color})
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			}
			return err
		},
		Inputs: []explore.Input{explore.Create(sail)},
		Keep:   true,
	}
}

// A version of a definition that lacks a field loses its values when it becomes the storage
// version. Versions with the same fields, and a definition with one version, raise no alarm.
func TestStorageVersion(t *testing.T) {
	const plan = "O8 storage-version after customresourcedefinitions.apiextensions.k8s.io sails.example.com #1"
	alarms := alarmsOf(t, sails(t, "size: {type: integer}"), explore.StorageVersion)
	if a := alarms[plan]; len(alarms) != 1 ||
		!strings.Contains(a.Detail, "sails.example.com default/main.spec.color: not set") ||
		!strings.Contains(a.Detail, "configmaps default/paint.data.color") {
		t.Errorf("a field is missing: %v", alarms)
	}
	same := sails(t, "size: {type: integer}, color: {type: string}")
	if alarms := alarmsOf(t, same, explore.StorageVersion); len(alarms) > 0 {
		t.Errorf("false alarms: %v", alarms)
	}
	if got, steps := replayed(t, same, strings.TrimPrefix(plan, "O8 ")); got != "" ||
		!strings.Contains(steps, "the storage version of sails.example.com becomes v2") {
		t.Errorf("%q\n%s", got, steps)
	}
	report, err := explore.Explore(t, sails(t, ""), explore.Options{Check: true})
	const want = "not tried: storage-version: no objects exist of a definition with several served versions"
	if err != nil || !strings.Contains(report.Summary(), want) {
		t.Errorf("%v, %s\nwant %q", err, report.Summary(), want)
	}
}

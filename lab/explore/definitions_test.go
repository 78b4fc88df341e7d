package explore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// masts is an operator of Masts. The version v2 of their definition, which is new, has no color,
// and becomes the storage version. The operator paints once, or again if the color changes.
func masts(t *testing.T, again bool) explore.Scenario {
	t.Helper()
	const version = "{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}"
	const fields = "size: {type: integer}, color: {type: string}"
	const begin = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: masts.example.com}, " +
		"spec: {group: example.com, scope: Namespaced, names: {kind: Mast, plural: masts}, versions: ["
	write := func(versions ...string) string {
		dir := filepath.Join(t.TempDir(), "config", "crd", "bases")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "masts.yaml"),
			[]byte(begin+strings.Join(versions, ", ")+"]}}"), 0o600))
		return dir
	}
	newest := write(fmt.Sprintf(version, "v1", false, fields), fmt.Sprintf(version, "v2", true, "size: {type: integer}"))
	former := write(fmt.Sprintf(version, "v1", true, fields))
	definitions, err := explore.Definitions(filepath.Join(former, "..", "..", ".."))
	if err != nil || len(definitions) != 1 {
		t.Fatalf("%v, %v: want the definitions of the former version", definitions, err)
	}
	mast := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": "red", "size": int64(3)}}}
	mast.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mast"})
	mast.SetName("main")
	operator := func(ctx context.Context, config *rest.Config) error {
		c, err := client.New(client.Config{REST: config})
		for err == nil && ctx.Err() == nil {
			current := mast.DeepCopy()
			current.SetNamespace("default")
			if c.Get(ctx, client.KeyOf(current), current) == nil {
				color, _, _ := unstructured.NestedString(current.Object, "spec", "color")
				paint := configMap("paint")
				paint.Data = map[string]string{"color": color}
				if err = c.Create(ctx, paint); apierrors.IsAlreadyExists(err) {
					if err = nil; again {
						err = put(ctx, c, "paint", paint.Data)
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		}
		return err
	}
	return explore.Scenario{Env: []testenv.Option{testenv.CRDs(newest)}, Operator: operator, Former: operator,
		FormerDefinitions: definitions, Inputs: []explore.Input{explore.Create(mast)}, Keep: true}
}

// An upgrade that adds a version to a definition is tried with objects of the former version. What
// an operator has derived from a field that the new version lacks differs from what it derives
// without the former version. An operator that follows the objects raises no alarm.
func TestUpgradeOfDefinitions(t *testing.T) {
	const plan = "upgrade-definitions after operator former #1"
	alarms := alarmsOf(t, masts(t, false), explore.UpgradeDefinitions, explore.Upgrade)
	a := alarms["O1 "+plan]
	if len(alarms) != 1 || !strings.Contains(a.Detail, "configmaps default/paint.data.color: \"red\"") {
		t.Errorf("an operator that paints once: %v", alarms)
	}
	s := masts(t, true)
	if alarms := alarmsOf(t, s, explore.UpgradeDefinitions, explore.Upgrade); len(alarms) > 0 {
		t.Errorf("an operator that paints again: %v", alarms)
	}
	if got, steps := replayed(t, s, plan); got != "" ||
		!strings.Contains(steps, "the definitions become those of the newest version") {
		t.Errorf("%q\n%s", got, steps)
	}
	s.FormerDefinitions = nil
	report, err := explore.Explore(t, s, explore.Options{Check: true})
	const want = "not tried: upgrade-definitions: the former version has the same definitions"
	if err != nil || !strings.Contains(report.Summary(), want) {
		t.Errorf("%v, %s\nwant %q", err, report.Summary(), want)
	}
}

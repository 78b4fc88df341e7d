package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// compare renders a chart with Helm and its default values, and compares the objects with those of
// the installer, field by field. Helm creates the namespace of the release, and a chart keeps
// definitions; the installer has neither.
func (c *checker) compare(ctx context.Context, installer, chart string) cell {
	data, err := os.ReadFile(installer)
	if err != nil {
		return cell{false, err.Error()}
	}
	want, err := decode(data)
	if err != nil {
		return cell{false, "installer: " + err.Error()}
	}
	namespace := releaseNamespace(want)
	delete(want, "Namespace /"+namespace)
	cmd := exec.CommandContext(ctx, c.helm, "template", "release", chart, "--namespace", namespace)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return cell{false, "helm template: " + strings.TrimSpace(log.String())}
	}
	have, err := decode(out.Bytes())
	if err != nil {
		return cell{false, "helm template: " + err.Error()}
	}
	if found := differences(want, have); len(found) > 0 {
		return cell{false, fmt.Sprintf("differs from the installer in %d places: %s", len(found),
			strings.Join(found, "\n"))}
	}
	return cell{true, fmt.Sprintf("%d equal objects", len(want))}
}

// releaseNamespace returns the namespace of the operator's workload.
func releaseNamespace(objects map[string]map[string]any) string {
	for _, kind := range []string{"Deployment ", "StatefulSet ", "DaemonSet "} {
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if rest, ok := strings.CutPrefix(key, kind); ok {
				namespace, _, _ := strings.Cut(rest, "/")
				return namespace
			}
		}
	}
	return "default"
}

// decode returns the objects of a stream of documents, by kind, namespace and name.
func decode(data []byte) (map[string]map[string]any, error) {
	objects := map[string]map[string]any{}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var o map[string]any
		if err := documents.Decode(&o); err == io.EOF {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		obj := unstructured.Unstructured{Object: o}
		if annotations := obj.GetAnnotations(); annotations["helm.sh/resource-policy"] != "" {
			delete(annotations, "helm.sh/resource-policy")
			if obj.SetAnnotations(annotations); len(annotations) == 0 {
				unstructured.RemoveNestedField(o, "metadata", "annotations")
			}
		}
		key := obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
		if _, twice := objects[key]; twice {
			return nil, fmt.Errorf("two objects %s", key)
		}
		objects[key] = o
	}
}

// differences returns the paths at which two sets of objects differ, with both values.
func differences(want, have map[string]map[string]any) (found []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if have[key] == nil {
			found = append(found, key+" is missing")
			continue
		}
		found = append(found, differ(key, want[key], have[key])...)
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if want[key] == nil {
			found = append(found, key+" is only in the chart")
		}
	}
	return found
}

// differ returns the paths below at where two values differ.
func differ(at string, want, have any) (found []string) {
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			keys := maps.Clone(w)
			maps.Copy(keys, h)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				_, inWant := w[key]
				_, inHave := h[key]
				switch {
				case !inHave:
					found = append(found, fmt.Sprintf("%s.%s is missing, not %v", at, key, w[key]))
				case !inWant:
					found = append(found, fmt.Sprintf("%s.%s is %v, not missing", at, key, h[key]))
				default:
					found = append(found, differ(at+"."+key, w[key], h[key])...)
				}
			}
			return found
		}
	case []any:
		if h, ok := have.([]any); ok && len(h) == len(w) {
			for i := range w {
				found = append(found, differ(fmt.Sprintf("%s[%d]", at, i), w[i], h[i])...)
			}
			return found
		}
	}
	if !reflect.DeepEqual(want, have) {
		return []string{fmt.Sprintf("%s is %v (%T), not %v (%T)", at, have, have, want, want)}
	}
	return nil
}

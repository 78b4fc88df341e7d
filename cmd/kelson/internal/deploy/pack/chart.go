package pack

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Chart returns a Helm chart with the same objects in the release's namespace, and values for
// settings that differ between clusters. CustomResourceDefinitions are templates too, so that
// upgrading the release updates them. Uninstalling the release keeps them unless crds.keep is
// false, and keeps PersistentVolumeClaims unless state.keep is false.
func Chart(o Operator) (Files, error) {
	deployment := o.deployment()
	if deployment == nil {
		return nil, ErrNoDeployment
	}
	repository, tag := splitImage(o.Image)
	container := map[string]any{}
	if list, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers"); len(list) > 0 {
		container, _ = list[0].(map[string]any)
	}
	values := map[string]any{
		"image":        map[string]any{"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
		"replicas":     int64(1),
		"args":         container["args"],
		"resources":    container["resources"],
		"nodeSelector": map[string]any{}, "tolerations": []any{}, "affinity": map[string]any{},
		"imagePullSecrets": []any{},
		"metrics":          map[string]any{"serviceMonitor": map[string]any{"enabled": false}},
	}
	for kind, kindValues := range map[string]map[string]any{
		"CustomResourceDefinition": {"crds": map[string]any{"install": true, "keep": true}},
		"PersistentVolumeClaim":    {"state": map[string]any{"keep": true}},
		"NetworkPolicy":            {"networkPolicy": map[string]any{"enabled": true}},
	} {
		if o.has(kind) {
			maps.Copy(values, kindValues)
		}
	}
	what, see := "operator", "get deployment "+deployment.GetName()
	if o.has("APIService") {
		what, see = "API server", "get deployment "+deployment.GetName()+"\n  kubectl wait --for=condition=Available --timeout=1m apiservice -l app.kubernetes.io/name="+o.Name
	}
	files := Files{
		"Chart.yaml": []byte(fmt.Sprintf("apiVersion: v2\nname: %s\ndescription: The %s %s\ntype: application\nversion: %s\nappVersion: %q\n",
			o.Name, what, o.Name, o.Version, or(tag, o.Version))),
		"values.schema.json":  []byte(valuesSchema),
		"templates/NOTES.txt": []byte(fmt.Sprintf("%s runs in namespace {{ .Release.Namespace }}:\n\n  kubectl -n {{ .Release.Namespace }} %s\n", o.Name, see)),
	}
	var err error
	if files["values.yaml"], err = encode(values); err != nil {
		return nil, err
	}
	for _, obj := range o.Objects {
		if obj.GetKind() == "Namespace" {
			continue // Helm creates the namespace of the release
		}
		text, err := chartTemplate(obj, o.namespace())
		if err != nil {
			return nil, err
		}
		name := "templates/" + fileName(obj)
		if obj.GetKind() == "CustomResourceDefinition" {
			name = "templates/crds/" + obj.GetName() + ".yaml"
		}
		if _, twice := files[name]; twice {
			return nil, fmt.Errorf("two objects have the same file name %s", name)
		}
		files[name] = []byte(text)
	}
	monitor, err := encode(serviceMonitor(o))
	if err != nil {
		return nil, err
	}
	files["templates/servicemonitor.yaml"] = []byte("{{- if .Values.metrics.serviceMonitor.enabled }}\n" + inRelease(escape(string(monitor)), o.namespace()) + "{{- end }}\n")
	return files, nil
}

// chartTemplate returns the template of an object.
func chartTemplate(obj *unstructured.Unstructured, namespace string) (string, error) {
	obj = obj.DeepCopy()
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["app.kubernetes.io/managed-by"] = "Helm"
	obj.SetLabels(labels)
	fill := map[string]string{} // templates by the placeholder whose line they replace
	switch obj.GetKind() {
	case "Deployment":
		if err := deploymentTemplate(obj, fill); err != nil {
			return "", err
		}
	case "CustomResourceDefinition", "PersistentVolumeClaim":
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kelson.dev/keep"] = "placeholder"
		obj.SetAnnotations(annotations)
	}
	data, err := encode(obj.Object)
	if err != nil {
		return "", err
	}
	text := inRelease(escape(string(data)), namespace)
	kept := "crds"
	if obj.GetKind() == "PersistentVolumeClaim" {
		kept = "state"
	}
	text = strings.Replace(text, "    kelson.dev/keep: placeholder\n", "    helm.sh/resource-policy: {{ ternary \"keep\" \"delete\" .Values."+kept+".keep }}\n", 1)
	for placeholder, template := range fill {
		var out strings.Builder
		for line := range strings.Lines(text) {
			if at := strings.Index(line, placeholder); at >= 0 {
				lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
				indent := lead
				if strings.HasPrefix(line[len(lead):], "- ") { // the first field of a list item
					lead, indent = lead+"- ", lead+"  "
				}
				line = strings.ReplaceAll(template, "INDENT", fmt.Sprint(len(indent)+2))
				line = lead + strings.ReplaceAll(line, "\n", "\n"+indent) + "\n"
			}
			out.WriteString(line)
		}
		text = out.String()
	}
	switch obj.GetKind() {
	case "CustomResourceDefinition":
		text = "{{- if .Values.crds.install }}\n" + text + "{{- end }}\n"
	case "NetworkPolicy":
		text = "{{- if .Values.networkPolicy.enabled }}\n" + text + "{{- end }}\n"
	}
	return text, nil
}

// deploymentTemplate sets placeholders in obj and adds their templates to fill.
func deploymentTemplate(obj *unstructured.Unstructured, fill map[string]string) error {
	pod := []string{"spec", "template", "spec"}
	spec, _, err := unstructured.NestedMap(obj.Object, pod...)
	if err != nil {
		return err
	}
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return ErrNoDeployment
	}
	c, ok := containers[0].(map[string]any)
	if !ok {
		return ErrNoDeployment
	}
	c["image"], c["imagePullPolicy"] = "PLACE-image.", "PLACE-policy."
	c["args"], c["resources"] = "PLACE-args.", "PLACE-resources."
	for _, key := range []string{"nodeSelector", "tolerations", "affinity", "imagePullSecrets"} {
		spec[key] = "PLACE-" + key + "."
		fill["PLACE-"+key+"."] = fmt.Sprintf("{{- with .Values.%s }}\n%s:\n{{- toYaml . | nindent INDENT }}\n{{- end }}", key, key)
	}
	fill["PLACE-image."] = `image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"`
	fill["PLACE-policy."] = "imagePullPolicy: {{ .Values.image.pullPolicy }}"
	fill["PLACE-args."] = "args:\n{{- toYaml .Values.args | nindent INDENT }}"
	fill["PLACE-resources."] = "resources:\n{{- toYaml .Values.resources | nindent INDENT }}"
	fill["PLACE-replicas."] = "replicas: {{ .Values.replicas }}"
	if err := unstructured.SetNestedMap(obj.Object, spec, pod...); err != nil {
		return err
	}
	return unstructured.SetNestedField(obj.Object, "PLACE-replicas.", "spec", "replicas")
}

// escape escapes the braces of text so that Helm does not interpret them.
func escape(text string) string {
	return strings.NewReplacer("{{", `{{ "{{" }}`, "}}", `{{ "}}" }}`).Replace(text)
}

// inRelease replaces the operator's namespace by that of the release.
func inRelease(text, namespace string) string {
	return strings.ReplaceAll(text, "namespace: "+namespace+"\n", "namespace: {{ .Release.Namespace }}\n")
}

// splitImage separates an image's tag from the rest.
func splitImage(image string) (repository, tag string) {
	if image == "" {
		image = "controller:latest"
	}
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		return image[:at], image[at+1:]
	}
	return image, ""
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// serviceMonitor returns the ServiceMonitor of the operator's metrics for the Prometheus Operator.
func serviceMonitor(o Operator) map[string]any {
	selector, _, _ := unstructured.NestedMap(o.deployment().Object, "spec", "selector")
	return map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
		"metadata": map[string]any{"name": o.Name + "-metrics", "namespace": o.namespace()},
		"spec": map[string]any{"selector": selector, "endpoints": []any{map[string]any{
			"port": "https", "path": "/metrics", "scheme": "https", "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig": map[string]any{"insecureSkipVerify": true},
		}}},
	}
}

// valuesSchema is the JSON schema with which Helm validates values.
var valuesSchema = func() string {
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	}
	kind := func(name string) map[string]any { return map[string]any{"type": name} }
	schema := object(map[string]any{
		"image": object(map[string]any{"repository": map[string]any{"type": "string", "minLength": 1}, "tag": kind("string"),
			"pullPolicy": map[string]any{"enum": []any{"Always", "IfNotPresent", "Never"}}}),
		"replicas":  map[string]any{"type": "integer", "minimum": 0},
		"args":      map[string]any{"type": "array", "items": kind("string")},
		"resources": kind("object"), "nodeSelector": kind("object"), "affinity": kind("object"),
		"tolerations": kind("array"), "imagePullSecrets": kind("array"), "global": kind("object"),
		"crds":          object(map[string]any{"install": kind("boolean"), "keep": kind("boolean")}),
		"state":         object(map[string]any{"keep": kind("boolean")}),
		"networkPolicy": object(map[string]any{"enabled": kind("boolean")}),
		"metrics":       object(map[string]any{"serviceMonitor": object(map[string]any{"enabled": kind("boolean")})}),
	})
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // the input is constant
	}
	return string(data) + "\n"
}()

package pack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/cmd/kelson/internal/manifests"
)

// Chart returns a Helm chart that renders, with its default values, the objects that Installer
// returns, in the release's namespace. The values have the settings that differ between clusters;
// their defaults are those of the manifests. CustomResourceDefinitions are templates too, so that
// upgrading the release updates them. Uninstalling the release keeps them unless crds.keep is
// false, and keeps PersistentVolumeClaims unless state.keep is false; the annotation for this is
// the only field that an installer does not have. Helm creates the namespace of the release.
func Chart(o Operator) (Files, error) {
	objects, manager, err := o.withImage()
	if err != nil {
		return nil, err
	}
	c := &chart{namespace: manager.Workload.GetNamespace(), values: map[string]any{},
		schema: map[string]any{"global": kind("object")}}
	c.parametrize(objects, manager)
	for _, s := range switches {
		if slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == s.kind }) {
			defaults, properties := map[string]any{}, map[string]any{}
			for _, name := range s.names {
				defaults[name], properties[name] = true, kind("boolean")
			}
			c.values[s.value], c.schema[s.value] = defaults, object(properties)
		}
	}
	monitored := slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == monitorKind
	})
	c.values["metrics"] = map[string]any{"serviceMonitor": map[string]any{"enabled": monitored}}
	c.schema["metrics"] = object(map[string]any{"serviceMonitor": object(map[string]any{"enabled": kind("boolean")})})
	if !monitored {
		objects = append(objects, &unstructured.Unstructured{Object: serviceMonitor(o.Name, manager)})
	}
	files := Files{}
	for _, obj := range objects {
		if obj.GetKind() == "Namespace" && obj.GetName() == c.namespace {
			continue
		}
		name := "templates/" + fileName(obj)
		if obj.GetKind() == "CustomResourceDefinition" {
			name = "templates/crds/" + obj.GetName() + ".yaml"
		}
		if _, twice := files[name]; twice {
			name = strings.TrimSuffix(name, ".yaml") + "-" + obj.GetNamespace() + ".yaml"
		}
		if _, twice := files[name]; twice {
			return nil, fmt.Errorf("two objects have the same file name %s", name)
		}
		if files[name], err = c.template(obj); err != nil {
			return nil, err
		}
	}
	return files, c.describe(files, o, manager)
}

// describe adds the files that are not templates of objects.
func (c *chart) describe(files Files, o Operator, manager *manifests.Manager) (err error) {
	workload := strings.ToLower(manager.Workload.GetKind()) + " " + manager.Workload.GetName()
	what, see := "operator", "get "+workload
	if o.has("APIService") {
		what, see = "API server", see+"\n  kubectl wait --for=condition=Available --timeout=1m apiservice -l app.kubernetes.io/name="+o.Name
	}
	_, tag, _ := splitImage(manager.Image)
	files["Chart.yaml"] = []byte(fmt.Sprintf(
		"apiVersion: v2\nname: %s\ndescription: The %s %s\ntype: application\nversion: %s\nappVersion: %q\n",
		o.Name, what, o.Name, o.Version, cmp.Or(tag, o.Version)))
	files["templates/NOTES.txt"] = []byte(fmt.Sprintf(
		"%s runs in namespace {{ .Release.Namespace }}:\n\n  kubectl -n {{ .Release.Namespace }} %s\n", o.Name, see))
	if files["values.yaml"], err = encode(c.values); err != nil {
		return err
	}
	files["values.schema.json"], err = valuesSchema(c.schema)
	return err
}

// chart holds what the templates of a chart have in common.
type chart struct {
	namespace      string // of the operator's workload; the release's namespace replaces it
	values, schema map[string]any
	expressions    []string // by the number in their placeholder
}

// A switches entry lists the values that include or keep all objects of a kind.
var switches = []struct {
	kind, value string
	names       []string
}{
	{"CustomResourceDefinition", "crds", []string{"install", "keep"}},
	{"PersistentVolumeClaim", "state", []string{"keep"}},
	{"NetworkPolicy", "networkPolicy", []string{"enabled"}},
}

const monitorKind = "ServiceMonitor"

// conditions are the values on which objects of a kind depend.
var conditions = map[string]string{
	"CustomResourceDefinition": "crds.install",
	"NetworkPolicy":            "networkPolicy.enabled",
	monitorKind:                "metrics.serviceMonitor.enabled",
}

// keeps are the values that decide whether Helm keeps objects of a kind.
var keeps = map[string]string{"CustomResourceDefinition": "crds.keep", "PersistentVolumeClaim": "state.keep"}

// settings are the fields of the manager's container and pod that values set, with their JSON type.
var settings = struct{ container, pod map[string]string }{
	container: map[string]string{"args": "array", "resources": "object"},
	pod: map[string]string{"nodeSelector": "object", "tolerations": "array", "affinity": "object",
		"imagePullSecrets":          "array",
		"topologySpreadConstraints": "array", "priorityClassName": "string"},
}

// parametrize replaces the fields that values set by placeholders, in the manager's workload and in
// the containers that have its image. The defaults of the values are the contents of these fields.
func (c *chart) parametrize(objects manifests.Objects, manager *manifests.Manager) {
	repository, tag, digest := splitImage(manager.Image)
	image := map[string]any{"repository": repository, "tag": tag, "digest": digest, "pullPolicy": ""}
	if policy, ok := manager.Container["imagePullPolicy"].(string); ok {
		image["pullPolicy"] = policy
	}
	c.values["image"] = image
	c.schema["image"] = object(map[string]any{
		"repository": map[string]any{"type": "string", "minLength": 1}, "tag": kind("string"), "digest": kind("string"),
		"pullPolicy": map[string]any{"enum": []any{"", "Always", "IfNotPresent", "Never"}}})
	objects.EachContainer(func(container map[string]any) {
		if container["image"] == manager.Image {
			container["image"] = c.place(`image: "{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ end }}"`)
		}
	})
	manager.Container["imagePullPolicy"] = c.place(
		"{{- with .Values.image.pullPolicy }}\nimagePullPolicy: {{ . }}\n{{- end }}")
	for name, jsonType := range settings.container {
		c.set(manager.Container, name, jsonType)
	}
	pod, _, _ := unstructured.NestedFieldNoCopy(manager.Workload.Object,
		manifests.PodSpec(manager.Workload.GetKind())...)
	for name, jsonType := range settings.pod {
		c.set(pod.(map[string]any), name, jsonType)
	}
	if manager.Workload.GetKind() == "DaemonSet" {
		return // one pod on each node
	}
	spec := manager.Workload.Object["spec"].(map[string]any)
	c.values["replicas"] = spec["replicas"]
	c.schema["replicas"] = map[string]any{"type": []any{"integer", "null"}, "minimum": 0}
	spec["replicas"] = c.place("{{- if not (kindIs \"invalid\" .Values.replicas) }}\nreplicas: {{ .Values.replicas }}\n{{- end }}")
}

// set makes the field name of an object the value with the same name. A field that the object does
// not have stays away while its value is empty.
func (c *chart) set(in map[string]any, name, jsonType string) {
	value, present := in[name]
	expression := name + ":\n{{- toYaml .Values." + name + " | nindent INDENT }}"
	if value == nil {
		value = map[string]any{"array": []any{}, "object": map[string]any{}, "string": ""}[jsonType]
	}
	if jsonType == "string" {
		expression = name + ": {{ .Values." + name + " | quote }}"
	}
	if !present {
		expression = "{{- if .Values." + name + " }}\n" + expression + "\n{{- end }}"
	}
	c.values[name], c.schema[name] = value, kind(jsonType)
	in[name] = c.place(expression)
}

// place returns a placeholder for a field's value. The expression replaces the field's whole line,
// its key included; INDENT in it is the indentation of the field's content.
func (c *chart) place(expression string) string {
	c.expressions = append(c.expressions, expression)
	return fmt.Sprintf("PLACE-%d.", len(c.expressions)-1)
}

// namespacePlaceholder stands for the namespace of the release.
const namespacePlaceholder = "PLACE-namespace."

// template returns the template of an object.
func (c *chart) template(obj *unstructured.Unstructured) ([]byte, error) {
	obj = obj.DeepCopy()
	keep := keeps[obj.GetKind()]
	if keep != "" {
		annotations := maps.Clone(obj.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["helm.sh/resource-policy"] = c.place(
			`helm.sh/resource-policy: {{ ternary "keep" "delete" .Values.` + keep + ` }}`)
		obj.SetAnnotations(annotations)
	}
	data, err := encode(c.inRelease(obj.Object, ""))
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(escape(string(data)), namespacePlaceholder, "{{ .Release.Namespace }}")
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(c.fill(line))
	}
	text = out.String()
	if condition := conditions[obj.GetKind()]; condition != "" {
		text = "{{- if .Values." + condition + " }}\n" + text + "{{- end }}\n"
	}
	return []byte(text), nil
}

// fill returns a line in which the expression replaces its placeholder, if it has one.
func (c *chart) fill(line string) string {
	at := strings.LastIndex(line, "PLACE-")
	if at < 0 {
		return line
	}
	var number int
	if _, err := fmt.Sscanf(line[at:], "PLACE-%d.\n", &number); err != nil || number >= len(c.expressions) {
		return line
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	indent := lead
	if strings.HasPrefix(line[len(lead):], "- ") { // the first field of a list item
		lead, indent = lead+"- ", lead+"  "
	}
	expression := strings.ReplaceAll(c.expressions[number], "INDENT", fmt.Sprint(len(indent)+2))
	return lead + strings.ReplaceAll(expression, "\n", "\n"+indent) + "\n"
}

// inRelease returns a copy of v in which the operator's namespace is a placeholder: in fields with
// the name namespace, in the DNS names of Services, and in cert-manager's annotations, which begin
// with the namespace of a Certificate.
func (c *chart) inRelease(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for k, field := range v {
			all[k] = c.inRelease(field, k)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, item := range v {
			all[i] = c.inRelease(item, "")
		}
		return all
	case string:
		switch {
		case c.namespace == "":
		case key == "namespace" && v == c.namespace:
			return namespacePlaceholder
		case strings.HasPrefix(key, "cert-manager.io/inject-ca-from") && strings.HasPrefix(v, c.namespace+"/"):
			return namespacePlaceholder + strings.TrimPrefix(v, c.namespace)
		default:
			return serviceNames(v, c.namespace)
		}
	}
	return v
}

// serviceNames replaces the namespace in the DNS names of Services.
func serviceNames(text, namespace string) string {
	const domain = ".svc"
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "."+namespace+domain)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if after == "" || strings.ContainsAny(after[:1], ".:/ ,\"'\n") {
			out.WriteString("." + namespacePlaceholder + domain)
		} else {
			out.WriteString("." + namespace + domain)
		}
		text = after
	}
}

// escape escapes the braces of text so that Helm does not interpret them.
func escape(text string) string {
	return strings.NewReplacer("{{", `{{ "{{" }}`, "}}", `{{ "}}" }}`).Replace(text)
}

// splitImage separates the tag or the digest of an image from the rest.
func splitImage(image string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(repository, ':'); at > strings.LastIndexByte(repository, '/') && digest == "" {
		return repository[:at], repository[at+1:], ""
	}
	return repository, "", digest
}

// serviceMonitor returns the ServiceMonitor of the operator's metrics for the Prometheus Operator.
func serviceMonitor(name string, manager *manifests.Manager) map[string]any {
	selector, _, _ := unstructured.NestedMap(manager.Workload.Object, "spec", "selector")
	return map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": monitorKind,
		"metadata": map[string]any{"name": name + "-metrics", "namespace": manager.Workload.GetNamespace()},
		"spec": map[string]any{"selector": selector, "endpoints": []any{map[string]any{
			"port": "https", "path": "/metrics", "scheme": "https",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig":       map[string]any{"insecureSkipVerify": true},
		}}},
	}
}

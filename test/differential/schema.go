package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// documents has the schemas that a server publishes, by the path of their group version.
type documents struct {
	side    *side
	schemas map[string]fieldMap
}

// schemasOf returns the schemas of a kind's group version, and the kind's own, or nil.
func (d *documents) schemasOf(ctx context.Context, k *kind) (schemas, own fieldMap) {
	schemas, ok := d.schemas[k.root()]
	if !ok {
		a := d.side.send(ctx, &step{method: http.MethodGet, path: "/openapi/v3" + k.root()}, newMemory())
		schemas, _ = at(a.body, "components", "schemas").(fieldMap)
		d.schemas[k.root()] = schemas
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		kinds, _ := at(schemas[name], "x-kubernetes-group-version-kind").([]any)
		for _, gvk := range kinds {
			if at(gvk, "group") == k.group && at(gvk, "version") == k.version && at(gvk, "kind") == k.kind {
				return schemas, schemas[name].(fieldMap)
			}
		}
	}
	return schemas, nil
}

// inventor generates values that mostly match a schema.
type inventor struct {
	schemas fieldMap
	rnd     *rand.Rand
}

func (v *inventor) chance(percent int) bool { return v.rnd.IntN(100) < percent }

func pick[T any](v *inventor, list ...T) T { return list[v.rnd.IntN(len(list))] }

// resolve follows references.
func (v *inventor) resolve(schema fieldMap) (resolved fieldMap, name string) {
	for {
		ref, _ := schema["$ref"].(string)
		if all, _ := schema["allOf"].([]any); ref == "" && len(all) == 1 {
			ref, _ = at(all[0], "$ref").(string)
		}
		if ref == "" {
			return schema, name
		}
		name = ref[strings.LastIndex(ref, "/")+1:]
		schema, _ = v.schemas[name].(fieldMap)
	}
}

// value generates a value of a schema. field is the name of its field, and depth the nesting level.
func (v *inventor) value(schema fieldMap, field string, depth int) any {
	schema, name := v.resolve(schema)
	if v.chance(2) {
		return v.wrong()
	}
	short := name[strings.LastIndex(name, ".")+1:]
	switch short {
	case "Quantity":
		return pick[any](v, "1", "100m", "1Gi", "1.5", "0", 2, "-1", "1e3", "nonsense")
	case "IntOrString":
		return pick[any](v, 1, 80, "http", "25%", 0, -1, "200%", "x_y")
	case "Time":
		return pick(v, "2024-01-02T03:04:05Z", "2024-01-02T03:04:05+02:00", "yesterday")
	case "MicroTime":
		return pick(v, "2024-01-02T03:04:05.000006Z", "2024-01-02T03:04:05Z")
	case "RawExtension", "JSON":
		return fieldMap{"apiVersion": "v1", "kind": "Any", "list": []any{}, "null": nil}
	case "FieldsV1":
		return fieldMap{"f:data": fieldMap{}}
	}
	if enum, _ := schema["enum"].([]any); len(enum) > 0 && v.chance(95) {
		return enum[v.rnd.IntN(len(enum))]
	}
	switch schema["type"] {
	case "object":
		return v.object(schema, field, depth)
	case "array":
		return v.list(schema, field, depth)
	case "boolean":
		return v.chance(50)
	case "integer":
		return v.integer(field)
	case "number":
		return pick[any](v, 1, 0.5, -2)
	case "string":
		return v.text(field, fmt.Sprint(schema["format"]))
	}
	return fieldMap{"any": "thing"}
}

func (v *inventor) object(schema fieldMap, field string, depth int) any {
	properties, _ := schema["properties"].(fieldMap)
	obj := fieldMap{}
	if values, ok := schema["additionalProperties"].(fieldMap); ok && len(properties) == 0 {
		for range v.rnd.IntN(3) {
			obj[v.key(field)] = v.value(values, "", depth+1)
		}
		return obj
	}
	required := texts(schema["required"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		wanted := 60 / (depth + 1) // of optional fields
		if slices.Contains(required, name) {
			wanted = 97
		}
		if depth > 7 && !slices.Contains(required, name) || !v.chance(wanted) {
			continue
		}
		if name == "metadata" { // of templates
			obj[name] = fieldMap{"labels": fieldMap{"app": "web"}}
			continue
		}
		obj[name] = v.value(properties[name].(fieldMap), name, depth+1)
	}
	if v.chance(1) {
		obj["unknown"] = 1
	}
	return obj
}

func (v *inventor) key(field string) string {
	switch field {
	case "matchLabels", "labels", "selector", "nodeSelector", "podSelector":
		return pick(v, "app", "example.com/tier", "Bad Key")
	case "limits", "requests", "capacity", "allocatable", "hard", "used", "overhead", "max", "min", "default",
		"defaultRequest":
		return pick(v, "cpu", "memory", "storage", "ephemeral-storage", "pods", "example.com/device", "hugepages-2Mi",
			"count/pods", "nonsense")
	}
	return pick(v, "a", "b.c", "key-1", "Bad_Key!")
}

func (v *inventor) list(schema fieldMap, field string, depth int) any {
	items, _ := schema["items"].(fieldMap)
	list := []any{}
	for range pick(v, 0, 1, 1, 1, 2) {
		list = append(list, v.value(items, field, depth+1))
	}
	if len(list) > 0 && v.chance(10) { // a duplicate
		list = append(list, cloneAny(list[0]))
	}
	return list
}

func (v *inventor) integer(field string) any {
	lower := strings.ToLower(field)
	switch {
	case strings.Contains(lower, "port"):
		return pick(v, 80, 443, 30080, 0, 65536, -1)
	case strings.Contains(lower, "mode"):
		return pick(v, 420, 0, 511, 512, -1)
	}
	return pick[any](v, 1, 2, 5, 10, 0, 100, -1, 2147483647, 2147483648)
}

// known lists texts that are valid in fields of a certain name.
var known = map[string][]string{
	"name": {"web", "data", "main", "x.y"}, "namespace": {"default"}, "image": {"example.com/app:1"},
	"mountPath": {"/data", "/tmp"}, "path": {"/healthz", "/x", "relative"},
	"host": {"example.com", "*.example.com"}, "hosts": {"example.com"}, "key": {"key", "app", "example.com/key"},
	"apiGroup": {"", "apps", "example.com"}, "apiVersion": {"v1", "apps/v1"},
	"kind": {"ConfigMap", "Pod", "Deployment"}, "ip": {"10.1.2.3", "fd00::1"}, "hostIP": {"10.1.2.3"},
	"podIP": {"10.1.2.3"}, "cidr": {"10.1.0.0/16", "fd00::/64"}, "cidrs": {"10.1.0.0/16"},
	"clusterIP": {"None", "", "10.0.0.9"}, "clusterIPs": {"None", "10.0.0.9"}, "ipFamilies": {"IPv4", "IPv6"},
	"schedule": {"*/5 * * * *", "@daily", "nonsense"}, "timeZone": {"Etc/UTC", "Nowhere/Land"},
	"serviceName": {"web"}, "storageClassName": {"fast", ""}, "provisioner": {"example.com/disk"},
	"driver": {"disk.example.com"}, "verbs": {"get", "*"}, "resources": {"pods", "*"}, "apiGroups": {"", "apps", "*"},
	"values": {"a", "b"}, "effect": {"NoSchedule", "NoExecute"}, "topologyKey": {"kubernetes.io/hostname"},
	"volumeName": {"disk"}, "nodeName": {"node-1"}, "serviceAccountName": {"builder"},
	"loadBalancerIP": {"192.0.2.1"}, "externalIPs": {"192.0.2.1", "127.0.0.1"},
	"loadBalancerSourceRanges": {"10.0.0.0/8"}, "externalName": {"example.com"},
	"expression": {"true", "object.spec.x == 1", "((("},
	"command":    {"run"}, "args": {"--x"}, "addresses": {"10.1.2.3"}, "hostname": {"host-1"},
	"appProtocol": {"http", "kubernetes.io/h2c"}, "reason": {"Reason"}, "message": {"A message"},
	"signerName": {"example.com/signer", "kubernetes.io/kube-apiserver-client"}, "handler": {"runc"},
	"controller": {"example.com/controller"}, "roleRef": {"admin"}, "secretName": {"secret"}, "claimName": {"claim"},
}

func (v *inventor) text(field, format string) string {
	switch {
	case format == "byte":
		return pick(v, "aGVsbG8=", "", "not base64")
	case format == "date-time":
		return pick(v, "2024-01-02T03:04:05Z", "yesterday")
	case v.chance(6):
		return pick(v, "", "UPPER_", "a b", strings.Repeat("x", 300), "-", "ä", "a/b/c", "..")
	}
	if fit := known[field]; fit != nil {
		return pick(v, fit...)
	}
	return pick(v, "abc", "example.com/x", "a-b", "1")
}

// wrong returns a value that is rarely valid.
func (v *inventor) wrong() any {
	return pick[any](v, nil, "text", -1, 1.5, true, []any{}, fieldMap{}, []any{nil}, fieldMap{"a": nil})
}

// mutated changes one value in an object, outside of its metadata.
func (v *inventor) mutated(obj fieldMap, schema fieldMap) fieldMap {
	c := clone(obj)
	for range pick(v, 1, 1, 2, 3) {
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(c)) {
			if key != "metadata" && key != "kind" && key != "apiVersion" {
				keys = append(keys, key)
			}
		}
		resolved, _ := v.resolve(schema)
		properties, _ := resolved["properties"].(fieldMap)
		if absent := v.absent(c, properties); len(keys) == 0 || len(absent) > 0 && v.chance(20) {
			if len(absent) > 0 {
				key := pick(v, absent...)
				c[key] = v.value(properties[key].(fieldMap), key, 1)
			}
			continue
		}
		key := pick(v, keys...)
		property, _ := properties[key].(fieldMap)
		if next, keep := v.mutate(c[key], property, key, 1); keep {
			c[key] = next
		} else {
			delete(c, key)
		}
	}
	return c
}

// absent returns fields that an object does not have.
func (v *inventor) absent(obj, properties fieldMap) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if _, has := obj[name]; !has && name != "metadata" && name != "status" {
			names = append(names, name)
		}
	}
	return names
}

// mutate replaces or removes a value.
func (v *inventor) mutate(value any, schema fieldMap, field string, depth int) (next any, keep bool) {
	resolved, _ := v.resolve(schema)
	switch value := value.(type) {
	case fieldMap:
		properties, _ := resolved["properties"].(fieldMap)
		absent := v.absent(value, properties)
		switch {
		case len(absent) > 0 && v.chance(30):
			key := pick(v, absent...)
			value[key] = v.value(properties[key].(fieldMap), key, depth+1)
			return value, true
		case len(value) > 0 && v.chance(80):
			key := pick(v, slices.Sorted(maps.Keys(value))...)
			property, ok := properties[key].(fieldMap)
			if !ok {
				property, _ = resolved["additionalProperties"].(fieldMap)
			}
			if inner, keep := v.mutate(value[key], property, key, depth+1); keep {
				value[key] = inner
			} else {
				delete(value, key)
			}
			return value, true
		}
	case []any:
		items, _ := resolved["items"].(fieldMap)
		switch {
		case len(value) > 0 && v.chance(60):
			i := v.rnd.IntN(len(value))
			if inner, keep := v.mutate(value[i], items, field, depth+1); keep {
				value[i] = inner
			} else {
				value = slices.Delete(value, i, i+1)
			}
			return value, true
		case items != nil && v.chance(50):
			return append(value, v.value(items, field, depth+1)), true
		}
	}
	switch {
	case v.chance(25):
		return nil, false
	case schema != nil && v.chance(85):
		return v.value(schema, field, depth), true
	}
	return v.wrong(), true
}

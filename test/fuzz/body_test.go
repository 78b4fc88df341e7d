package fuzz

import (
	"encoding/json"
	"net/http"
	"testing"

	"kelson.dev/internal/require"
)

var encodings = []string{"application/json", yaml, "application/vnd.kubernetes.protobuf", "application/cbor"}

// kinds are collections, each with an object that can be created in it.
var kinds = [][2]string{
	{"/api/v1/namespaces/default/configmaps",
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: v}, annotations: {k: v}, finalizers: [x.io/f]}, data: {k: v}, binaryData: {b: AAEC}}`},
	{"/api/v1/namespaces/default/pods", `{apiVersion: v1, kind: Pod, metadata: {generateName: a-}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 100m}}, ports: [{containerPort: 80}],
  env: [{name: E, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], livenessProbe: {httpGet: {port: http}}}], volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}}`},
	{"/apis/apps/v1/namespaces/default/deployments", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, selector: {matchLabels: {l: v}, matchExpressions: [{key: l, operator: Exists}]},
  template: {metadata: {labels: {l: v}}, spec: {containers: [{name: c, image: i}]}}, strategy: {rollingUpdate: {maxSurge: 10%}}}}`},
	{"/api/v1/namespaces/default/services", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {l: v}, ports: [{port: 80, targetPort: http}], sessionAffinity: ClientIP}}`},
	{"/api/v1/namespaces/default/secrets", `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: v}, data: {d: AAEC}, type: Opaque}`},
	{"/apis/batch/v1/namespaces/default/cronjobs", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "*/5 * * * *", timeZone: Europe/Berlin, jobTemplate: {spec: {template:
  {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`},
	{"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 3,
  targetCPUUtilizationPercentage: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles",
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}`},
	{"/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: h.x, http: {paths: [{path: /, pathType: Prefix,
  backend: {service: {name: s, port: {number: 80}}}}]}}]}}`},
	{"/apis/shop.example/v1/namespaces/default/widgets", `{apiVersion: shop.example/v1, kind: Widget, metadata: {name: a}, spec: {size: 3, at: "2020-01-01T00:00:00Z", any: {x: [1, 1.5, null]}, either: 5,
  tags: [a, b], parts: [{name: p}, {name: q, count: 1}], template: {apiVersion: v1, kind: X, metadata: {name: t}}}}`},
	{definitions, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.x.io}, spec: {group: x.io, names: {plural: as, kind: A}, scope: Cluster, versions: [{name: v1, served: true,
  storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: string, default: d, pattern: "^d"}}}}}]}}`},
	{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: w.x.io,
  clientConfig: {url: "https://127.0.0.1:1/"}, sideEffects: None, admissionReviewVersions: [v1], matchConditions: [{name: c, expression: "request.userInfo.username != 'x'"}]}]}`},
	{"/apis/authorization.k8s.io/v1/subjectaccessreviews",
		`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: u, resourceAttributes: {verb: get, resource: pods, labelSelector: {rawSelector: "a in (b)"}}}}`},
}

// FuzzBody checks bodies in any encoding: accepted objects can be read in all encodings, updated
// and deleted.
func FuzzBody(f *testing.F) {
	p := start(f)
	for k, kind := range kinds {
		f.Add(uint8(k), uint8(1), []byte(kind[1]))
		if k == len(kinds)-1 {
			break // reviews are not stored
		}
		made := p.do(f, "POST", kind[0], "", kind[1], yaml)
		if made.code != http.StatusCreated {
			f.Fatalf("%s: %d %s", kind[0], made.code, made.body)
		}
		for e, media := range encodings {
			if got := p.do(f, "GET", kind[0]+"/"+name(f, made), "", "", "", "Accept",
				media); got.code == http.StatusOK {
				f.Add(uint8(k), uint8(e), got.body)
			}
		}
		p.remove(f, kind[0], made)
	}
	for e, body := range []string{`{"metadata":{"name":"a","name":"b"},"metadata":null}`, "a: &a [*a, *a]\n---\nb",
		"k8s\x00\x0a\xff\xff\xff\xff\x0f", "\xd9\xd9\xf7\xa1\x5f\x41a\xff\x9f\xff", "[[[[[[", ""} {
		f.Add(uint8(e), uint8(e), []byte(body))
	}
	f.Fuzz(func(t *testing.T, kind, encoding uint8, body []byte) {
		collection, media := pick(kind, kinds)[0], pick(encoding, encodings)
		made := p.do(t, "POST", collection, "", string(body), media, "Accept", "application/json")
		if made.code != http.StatusCreated || collection == kinds[len(kinds)-1][0] {
			return
		}
		path := collection + "/" + name(t, made)
		for _, accept := range append(encodings, "application/json;as=Table;v=v1;g=meta.k8s.io",
			"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io") {
			if got := p.do(t, "GET", path, "", "", "", "Accept", accept); got.code != http.StatusOK &&
				got.code != http.StatusNotAcceptable {
				t.Errorf("%s as %s: %d %s", path, accept, got.code, got.body)
			}
		}
		if got := p.do(t, "PUT", path, "", string(made.body), "application/json"); got.code != http.StatusOK {
			t.Errorf("%s as it is: %d %s", path, got.code, got.body)
		}
		p.remove(t, collection, made)
	})
}

// name returns the name of a created object.
func name(t testing.TB, made answer) string {
	t.Helper()
	var o struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(made.body, &o); err != nil || o.Metadata.Name == "" {
		t.Fatalf("created %q: %v", made.body, err)
	}
	return o.Metadata.Name
}

// remove deletes an object and its finalizers.
func (p *plane) remove(t testing.TB, collection string, made answer) {
	t.Helper()
	path := collection + "/" + name(t, made)
	p.do(t, "DELETE", path, "gracePeriodSeconds=0", "", "")
	if p.do(t, "GET", path, "", "", "").code == http.StatusOK {
		p.do(t, "PATCH", path, "", `{"metadata":{"finalizers":null}}`, "application/merge-patch+json")
		p.do(t, "DELETE", path, "gracePeriodSeconds=0", "", "")
	}
	if got := p.do(t, "GET", path, "", "", ""); got.code != http.StatusNotFound {
		t.Fatalf("%s can't be deleted: %d %s", path, got.code, got.body)
	}
}

// FuzzPatch checks patches of any type: afterwards, the object must be readable.
func FuzzPatch(f *testing.F) {
	types := []string{"application/json-patch+json", "application/merge-patch+json",
		"application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor"}
	targets := []struct{ collection, object, below string }{
		{kinds[0][0], kinds[0][1], ""}, {kinds[2][0], kinds[2][1], ""}, {kinds[2][0], kinds[2][1], "/status"},
		{kinds[2][0], kinds[2][1], "/scale"},
		{kinds[9][0], kinds[9][1], ""}, {kinds[9][0], kinds[9][1], "/status"}, {kinds[9][0], kinds[9][1], "/scale"},
		{kinds[3][0], kinds[3][1], ""},
	}
	for i, body := range []string{
		`[{"op":"add","path":"/data","value":{"a":"b"}},{"op":"copy","from":"/data","path":"/metadata/annotations"},{"op":"move","from":"/data/a","path":"/metadata/labels"}]`,
		`[{"op":"test","path":"/spec/parts/0/name","value":"p"},{"op":"remove","path":"/spec/parts/-1"},{"op":"replace","path":"","value":null}]`,
		`{"metadata":{"labels":{"a":null},"finalizers":[null]},"data":[],"spec":{"size":null,"parts":[{"name":"p"},{"name":"p"}]}}`,
		`{"metadata":{"$patch":"replace"},"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"c","$patch":"delete"},{"name":"d","image":"j"}]}}}}`,
		`{"spec":{"ports":[{"$retainKeys":["port"],"port":80}],"$deleteFromPrimitiveList/tags":["a"]},"status":{"conditions":[{"type":"A"}]}}`,
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: c, image: k}]}}}\n",
		"apiVersion: shop.example/v1\nkind: Widget\nmetadata: {name: a, managedFields: []}\nspec: {tags: [c], parts: [{name: p, count: 7}], any: &x {a: *x}}\n",
		"\xd9\xd9\xf7\xa2JapiVersionBv1DkindIConfigMap", `null`, `[]`, `[null]`, `""`, `{"metadata":null}`,
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:":{}}}]}}`,
	} {
		for n := range targets {
			f.Add(uint8(n), uint8(i), []byte(body))
		}
		f.Add(uint8(4), uint8(3), []byte(body))
	}
	p := start(f)
	f.Fuzz(func(t *testing.T, target, typ uint8, patch []byte) {
		to := pick(target, targets)
		made := p.do(t, "POST", to.collection, "", to.object, yaml)
		require.Equalf(t, made.code, http.StatusCreated, "%s", made.body)
		defer p.remove(t, to.collection, made)
		path := to.collection + "/" + name(t, made)
		for _, query := range []string{"fieldManager=f", "fieldManager=g&force=true&fieldValidation=Strict"} {
			if pick(typ, types)[:17] != "application/apply" && query != "fieldManager=f" {
				query = "dryRun=All"
			}
			got := p.do(t, "PATCH", path+to.below, query, string(patch), pick(typ, types), "Accept", "application/json")
			if got.code == http.StatusOK && !json.Valid(got.body) {
				t.Errorf("%s answers %q", path, got.body)
			}
		}
		for _, accept := range encodings {
			if got := p.do(t, "GET", path, "", "", "", "Accept", accept); got.code != http.StatusOK &&
				got.code != http.StatusNotAcceptable && got.code != http.StatusNotFound {
				t.Errorf("%s as %s: %d %s", path, accept, got.code, got.body)
			}
		}
	})
}

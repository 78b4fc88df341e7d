package attributes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// User is the user that the requests impersonate. The webhooks of Configurations are called only
// for this user, so that the requests of controllers and other clients are not recorded.
const User = "reviewed"

// Impersonation are the headers of the requests. They need a client that may impersonate.
var Impersonation = map[string]string{
	"Impersonate-User": User, "Impersonate-Group": "system:masters", "Impersonate-Uid": "u-1",
	"Impersonate-Extra-Team": "blue",
}

// Request is one request. Names are unique in the list.
type Request struct {
	Name        string
	Method      string
	Path        string // with the query
	ContentType string
	Body        string
	// Unanswered marks a request whose response differs between servers, such as one for a
	// connection to a kubelet or a pod.
	Unanswered bool
	// Ready marks a GET of a definition or a kind, to be repeated until the response is 200 and,
	// for a definition, has the condition Established.
	Ready bool
}

// subject is a kind and its subresources.
type subject struct {
	root, plural string // of the path
	apiVersion   string
	kind         string
	cluster      bool
	object       string // the object without apiVersion, kind and metadata, in JSON
	status       bool
	scale        bool
	typed        bool // strategic merge patches are supported
}

const (
	podSpec  = `{"containers":[{"name":"main","image":"example.com/app:1"}]}`
	template = `"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` +
		podSpec + `}`
)

// subjects have every form of scope: cluster-scoped, namespaced and Namespace itself, built-in and
// custom, of one version and of several.
func subjects(own string) []subject {
	group := own + ".example.com"
	return []subject{
		{root: "/api/v1", plural: "configmaps", apiVersion: "v1", kind: "ConfigMap", object: `{"data":{"a":"b"}}`,
			typed: true},
		{root: "/api/v1", plural: "pods", apiVersion: "v1", kind: "Pod", object: `{"spec":` + podSpec + `}`,
			status: true, typed: true},
		{root: "/api/v1", plural: "services", apiVersion: "v1", kind: "Service",
			object: `{"spec":{"ports":[{"port":80}]}}`, status: true, typed: true},
		{root: "/api/v1", plural: "serviceaccounts", apiVersion: "v1", kind: "ServiceAccount", object: `{}`,
			typed: true},
		{root: "/api/v1", plural: "events", apiVersion: "v1", kind: "Event",
			object: `{"involvedObject":{"kind":"Pod","namespace":"` + own + `","name":"a"},"reason":"R"}`, typed: true},
		{root: "/apis/events.k8s.io/v1", plural: "events", apiVersion: "events.k8s.io/v1", kind: "Event", typed: true,
			object: `{"eventTime":"2024-01-02T03:04:05.000006Z",` +
				`"regarding":{"kind":"Pod","namespace":"` + own +
				`","name":"a"},"reason":"R","action":"A","type":"Normal","reportingController":"e.com/k","reportingInstance":"i"}`},
		{root: "/apis/apps/v1", plural: "deployments", apiVersion: "apps/v1", kind: "Deployment",
			object: `{"spec":{` + template + `}}`, status: true, scale: true, typed: true},
		{root: "/apis/autoscaling/v1", plural: "horizontalpodautoscalers", apiVersion: "autoscaling/v1",
			kind:   "HorizontalPodAutoscaler",
			object: `{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"maxReplicas":5}}`, status: true, typed: true},
		{root: "/apis/autoscaling/v2", plural: "horizontalpodautoscalers", apiVersion: "autoscaling/v2",
			kind:   "HorizontalPodAutoscaler",
			object: `{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"maxReplicas":5}}`, status: true, typed: true},
		{root: "/apis/coordination.k8s.io/v1", plural: "leases", apiVersion: "coordination.k8s.io/v1", kind: "Lease",
			object: `{"spec":{}}`, typed: true},
		{root: "/apis/rbac.authorization.k8s.io/v1", plural: "roles", apiVersion: "rbac.authorization.k8s.io/v1",
			kind: "Role", object: `{"rules":[]}`, typed: true},
		{root: "/apis/rbac.authorization.k8s.io/v1", plural: "clusterroles", apiVersion: "rbac.authorization.k8s.io/v1",
			kind: "ClusterRole", cluster: true, object: `{"rules":[]}`, typed: true},
		{root: "/api/v1", plural: "nodes", apiVersion: "v1", kind: "Node", cluster: true, object: `{}`, status: true,
			typed: true},
		{root: "/api/v1", plural: "persistentvolumes", apiVersion: "v1", kind: "PersistentVolume", cluster: true,
			status: true, typed: true,
			object: `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/data"}}}`},
		{root: "/apis/apiregistration.k8s.io/v1", plural: "apiservices", apiVersion: "apiregistration.k8s.io/v1",
			kind: "APIService", cluster: true, status: true},
		{root: "/apis/apiextensions.k8s.io/v1", plural: "customresourcedefinitions",
			apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", cluster: true, status: true},
		{root: "/apis/" + group + "/v1", plural: "widgets", apiVersion: group + "/v1", kind: "Widget",
			object: `{"spec":{"replicas":1}}`, status: true, scale: true},
		{root: "/apis/" + group + "/v2", plural: "widgets", apiVersion: group + "/v2", kind: "Widget",
			object: `{"spec":{"replicas":1}}`, status: true, scale: true},
		{root: "/apis/" + group + "/v1", plural: "gadgets", apiVersion: group + "/v1", kind: "Gadget", cluster: true,
			object: `{"spec":{"replicas":1}}`, status: true, scale: true},
		{root: "/api/v1", plural: "namespaces", apiVersion: "v1", kind: "Namespace", cluster: true, object: `{}`,
			status: true, typed: true},
	}
}

// Media types of bodies.
const (
	asJSON      = "application/json"
	asJSONPatch = "application/json-patch+json"
	asMerge     = "application/merge-patch+json"
	asStrategic = "application/strategic-merge-patch+json"
	asApply     = "application/apply-patch+yaml"
)

// Definitions are the requests that make the custom kinds of Requests, and the namespace own.
func Definitions(own string) []Request {
	group := own + ".example.com"
	list := []Request{{Name: "namespace", Method: http.MethodPost, Path: "/api/v1/namespaces", ContentType: asJSON,
		Body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + own + `"}}`}}
	for _, d := range []string{definition(group, "widgets", "Widget", "Namespaced"),
		definition(group, "gadgets", "Gadget", "Cluster")} {
		list = append(list, Request{Name: "define " + d[21:28], Method: http.MethodPost, ContentType: asJSON, Body: d,
			Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"})
	}
	for _, path := range []string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets." + group,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets." + group,
		"/apis/" + group + "/v1/gadgets", "/apis/" + group + "/v2/namespaces/" + own + "/widgets",
	} {
		list = append(list, Request{Name: "defined " + path, Method: http.MethodGet, Path: path, Ready: true})
	}
	return list
}

func definition(group, plural, kind, scope string) string {
	version := func(name, storage string) string {
		return `{"name":"` + name + `","served":true,"storage":` + storage + `,` +
			`"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},` +
			`"schema":{"openAPIV3Schema":{"type":"object","properties":{` +
			`"spec":{"type":"object","properties":{"replicas":{"type":"integer"}}},"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}`
	}
	return `{"metadata":{"name":"` + plural + "." + group +
		`"},"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"` + group +
		`","scope":"` + scope + `","names":{"plural":"` + plural + `","kind":"` + kind + `"},"versions":[` +
		version("v1", "true") + "," + version("v2", "false") + `]}}`
}

// Requests returns the requests in their order. The names of all objects contain own. They need the
// kinds of Definitions.
func Requests(own string) []Request {
	l := &list{own: own}
	for _, s := range subjects(own) {
		l.verbs(s)
	}
	l.namespaces()
	l.pods()
	l.others()
	return l.all
}

// list collects requests.
type list struct {
	own string
	all []Request
}

func (l *list) add(name, method, path, contentType, body string) {
	l.all = append(l.all, Request{Name: name, Method: method, Path: path, ContentType: contentType, Body: body})
}

// connect adds a request for a connection.
func (l *list) connect(name, method, path string) {
	l.all = append(l.all, Request{Name: name, Method: method, Path: path, Unanswered: true})
}

// collection returns the path of a subject's collection.
func (s subject) collection(own string) string {
	if s.cluster {
		return s.root + "/" + s.plural
	}
	return s.root + "/namespaces/" + own + "/" + s.plural
}

// body returns an object with a name or, if that ends with a hyphen, a generateName.
func (s subject) body(own, name, more string) string {
	obj := s.object
	switch s.kind { // the name depends on the content
	case "APIService":
		group := strings.TrimPrefix(name, "v1.")
		obj = `{"spec":{"group":"` + group + `","version":"v1","groupPriorityMinimum":1000,"versionPriority":10}}`
	case "CustomResourceDefinition":
		plural, group, _ := strings.Cut(name, ".")
		obj = `{"spec":{"group":"` + group + `","scope":"Cluster","names":{"plural":"` + plural + `","kind":"` +
			strings.ToUpper(plural[:1]) + plural[1:] +
			`"},"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	}
	meta := `"name":"` + name + `"`
	if strings.HasSuffix(name, "-") {
		meta = `"generateName":"` + name + `"`
	}
	merged := map[string]json.RawMessage{}
	for _, text := range []string{obj, `{"apiVersion":"` + s.apiVersion + `","kind":"` + s.kind + `","metadata":{` +
		meta + `,"labels":{"of":"` + own + `"` + more + `}}}`} {
		if err := json.Unmarshal([]byte(text), &merged); err != nil {
			panic(fmt.Sprintf("%s: %v", text, err)) // the text is part of this file
		}
	}
	data, err := json.Marshal(merged)
	if err != nil {
		panic(err) // encoding a map of JSON values does not fail
	}
	return string(data)
}

// name returns the name of an object of a subject.
func (s subject) name(own, name string) string {
	switch {
	case s.kind == "APIService":
		return "v1." + name + "." + own + ".com"
	case s.kind == "CustomResourceDefinition":
		return name + "s." + own + ".com"
	case s.cluster:
		return own + "-" + name
	case s.apiVersion == "v1" || !slices.Contains([]string{"Event", "HorizontalPodAutoscaler", "Widget"}, s.kind):
		return name
	}
	// these kinds share their objects with others
	return name + "-" + strings.NewReplacer("/", "-", ".", "-", own, "").Replace(s.apiVersion)
}

// verbs adds all verbs on the objects of a subject, and on its subresources status and scale.
func (l *list) verbs(s subject) {
	coll, name := s.collection(l.own), s.name(l.own, "a")
	path := coll + "/" + name
	of := s.apiVersion + " " + s.kind + " "
	if s.kind != "APIService" && s.kind != "CustomResourceDefinition" {
		l.add(of+"create, generated name", http.MethodPost, coll+"?dryRun=All", asJSON,
			s.body(l.own, s.name(l.own, "g")+"-gen-", ""))
	}
	l.add(of+"create, dry run", http.MethodPost, coll+"?dryRun=All&fieldManager=m&fieldValidation=Strict", asJSON,
		s.body(l.own, name, ""))
	l.add(of+"create", http.MethodPost, coll, asJSON, s.body(l.own, name, ""))
	l.add(of+"update", http.MethodPut, path+"?fieldManager=m", asJSON, s.body(l.own, name, `,"put":"x"`))
	l.add(of+"update, dry run", http.MethodPut, path+"?dryRun=All", asJSON, s.body(l.own, name, ""))
	l.add(of+"update, missing", http.MethodPut, coll+"/"+s.name(l.own, "p"), asJSON,
		s.body(l.own, s.name(l.own, "p"), ""))
	l.add(of+"apply, missing", http.MethodPatch, coll+"/"+s.name(l.own, "b")+"?fieldManager=m&force=true", asApply,
		s.body(l.own, s.name(l.own, "b"), ""))
	l.patches(of, path, s, `{"metadata":{"labels":{"patch":"x"}}}`)
	l.add(of+"apply", http.MethodPatch, path+"?fieldManager=m&force=true", asApply, s.body(l.own, name, `,"apply":"x"`))
	if s.status {
		l.add(of+"status update", http.MethodPut, path+"/status", asJSON, s.body(l.own, name, ""))
		l.patches(of+"status ", path+"/status", s, `{"metadata":{"annotations":{"status":"x"}}}`)
		l.add(of+"status apply", http.MethodPatch, path+"/status?fieldManager=s&force=true", asApply,
			`{"apiVersion":"`+s.apiVersion+`","kind":"`+s.kind+`","metadata":{"name":"`+name+`"},"status":{}}`)
	}
	if s.scale {
		scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"` + name +
			`"},"spec":{"replicas":2}}`
		if !s.cluster {
			scale = strings.Replace(scale, `"},"spec`, `","namespace":"`+l.own+`"},"spec`, 1)
		}
		l.add(of+"scale update", http.MethodPut, path+"/scale", asJSON, scale)
		l.patches(of+"scale ", path+"/scale", s, `{"spec":{"replicas":3}}`)
		if s.typed { // kube-apiserver cannot apply the scale of a custom kind
			l.add(of+"scale apply", http.MethodPatch, path+"/scale?fieldManager=s&force=true", asApply, scale)
		}
	}
	l.add(of+"delete, dry run", http.MethodDelete, path+"?dryRun=All&propagationPolicy=Background", "", "")
	l.add(of+"delete, options", http.MethodDelete, path, asJSON,
		`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Background"}`)
	l.add(of+"delete, missing", http.MethodDelete, coll+"/"+s.name(l.own, "q"), "", "")
	if s.kind == "CustomResourceDefinition" { // it still exists for a moment
		return
	}
	l.add(of+"delete collection", http.MethodDelete, coll+"?labelSelector=of%3D"+l.own, "", "")
}

// patches adds the patches of an object or a subresource that are not server-side apply.
func (l *list) patches(of, path string, s subject, merge string) {
	l.add(of+"merge patch", http.MethodPatch, path+"?fieldManager=m", asMerge, merge)
	l.add(of+"merge patch, dry run", http.MethodPatch, path+"?dryRun=All", asMerge,
		strings.ReplaceAll(merge, `"x"`, `"y"`))
	l.add(of+"JSON patch", http.MethodPatch, path, asJSONPatch,
		`[{"op":"test","path":"/kind","value":"`+kindIn(path, s)+`"}]`)
	if s.typed {
		l.add(of+"strategic merge patch", http.MethodPatch, path, asStrategic, strings.ReplaceAll(merge, `"x"`, `"z"`))
	}
}

func kindIn(path string, s subject) string {
	if strings.HasSuffix(path, "/scale") {
		return "Scale"
	}
	return s.kind
}

// namespaces adds the requests that only Namespaces have.
func (l *list) namespaces() {
	name := l.own + "-f"
	body := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name +
		`"},"spec":{"finalizers":["kubernetes"]}}`
	l.add("Namespace to finalize", http.MethodPost, "/api/v1/namespaces", asJSON, body)
	l.add("Namespace finalize, dry run", http.MethodPut, "/api/v1/namespaces/"+name+"/finalize?dryRun=All", asJSON,
		body)
	l.add("Namespace finalize", http.MethodPut, "/api/v1/namespaces/"+name+"/finalize", asJSON, body)
	l.add("Namespace delete, no body", http.MethodDelete, "/api/v1/namespaces/"+name, "", "")
	l.add("Namespace delete of default", http.MethodDelete, "/api/v1/namespaces/default", "", "")
	l.add("Namespace below a namespace", http.MethodDelete, "/api/v1/namespaces/"+name+"/namespaces/"+name, "", "")
}

// pods adds the subresources of pods.
func (l *list) pods() {
	pods := "/api/v1/namespaces/" + l.own + "/pods"
	path := pods + "/s"
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"s"},"spec":` + podSpec + `}`
	l.add("Pod", http.MethodPost, pods, asJSON, pod)
	l.add("Pod ephemeralcontainers", http.MethodPatch, path+"/ephemeralcontainers", asStrategic,
		`{"spec":{"ephemeralContainers":[{"name":"e","image":"example.com/app:1"}]}}`)
	l.add("Pod resize", http.MethodPatch, path+"/resize", asStrategic,
		`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"100m"}}}]}}`)
	binding := func(name string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + name +
			`"},"target":{"kind":"Node","name":"none"}}`
	}
	l.add("Pod binding, dry run", http.MethodPost, path+"/binding?dryRun=All", asJSON, binding("s"))
	l.add("Pod eviction, dry run", http.MethodPost, path+"/eviction?dryRun=All", asJSON,
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"s"}}`)
	l.add("Pod eviction, dry run in the options", http.MethodPost, path+"/eviction", asJSON,
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"s"},"deleteOptions":{"dryRun":["All"]}}`)
	for _, sub := range []string{"exec?command=a&stdout=true", "attach?stdout=true", "portforward?ports=80"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			l.connect("Pod "+sub+" "+method, method, path+"/"+sub)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions} {
		for _, below := range []string{"/proxy", "/proxy/a/b"} {
			l.connect("Pod "+below+" "+method, method, path+below)
			l.connect("Service "+below+" "+method, method, "/api/v1/namespaces/"+l.own+"/services/s:80"+below)
			l.connect("Node "+below+" "+method, method, "/api/v1/nodes/"+l.own+"-s"+below)
		}
	}
	l.add("Pod log", http.MethodGet, path+"/log", "", "")
	l.add("Pod binding", http.MethodPost, path+"/binding", asJSON, binding("s"))
	l.add("Pod to bind", http.MethodPost, pods, asJSON, strings.Replace(pod, `"name":"s"`, `"name":"t"`, 1))
	l.add("bindings", http.MethodPost, "/api/v1/namespaces/"+l.own+"/bindings", asJSON, binding("t"))
	l.add("Pod to evict", http.MethodPost, pods, asJSON, strings.Replace(pod, `"name":"s"`, `"name":"u"`, 1))
	l.add("Pod eviction", http.MethodPost, pods+"/u/eviction", asJSON,
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"u"}}`)
}

// review adds the creation of a review of authorization.
func (l *list) review(kind, spec string) {
	l.add(kind, http.MethodPost, "/apis/authorization.k8s.io/v1/"+strings.ToLower(kind)+"s", asJSON,
		`{"apiVersion":"authorization.k8s.io/v1","kind":"`+kind+`","spec":`+spec+`}`)
}

// certificateRequest returns a request for a certificate, as a CertificateSigningRequest has it.
var certificateRequest = sync.OnceValue(func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // generating a key does not fail
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}}, key)
	if err != nil {
		panic(err) // the template is valid
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
})

// others adds reviews, tokens and subresources of single kinds.
func (l *list) others() {
	l.add("ServiceAccount", http.MethodPost, "/api/v1/namespaces/"+l.own+"/serviceaccounts", asJSON,
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}`)
	l.add("ServiceAccount token", http.MethodPost, "/api/v1/namespaces/"+l.own+"/serviceaccounts/s/token", asJSON,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)
	l.all[len(l.all)-1].Unanswered = true // tokens differ
	l.add("ReplicationController", http.MethodPost, "/api/v1/namespaces/"+l.own+"/replicationcontrollers", asJSON,
		`{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"s"},"spec":{"replicas":0,"selector":{"app":"w"},"template":{"metadata":{"labels":{"app":"w"}},"spec":`+podSpec+`}}}`)
	l.add("ReplicationController scale", http.MethodPatch,
		"/api/v1/namespaces/"+l.own+"/replicationcontrollers/s/scale", asMerge, `{"spec":{"replicas":1}}`)
	csr := "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	l.add("CSR", http.MethodPost, csr, asJSON,
		`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"`+l.own+
			`"},"spec":{"signerName":"example.com/s","usages":["client auth"],"request":"`+certificateRequest()+`"}}`)
	for _, sub := range []string{"approval", "status"} {
		l.add("CSR "+sub, http.MethodPatch, csr+"/"+l.own+"/"+sub, asMerge,
			`{"status":{"conditions":[{"type":"`+map[string]string{"approval": "Approved", "status": "Failed"}[sub]+
				`","status":"True","reason":"R"}]}}`)
	}
	l.review("SubjectAccessReview", `{"user":"a","nonResourceAttributes":{"path":"/","verb":"get"}}`)
	l.review("SelfSubjectAccessReview", `{"nonResourceAttributes":{"path":"/","verb":"get"}}`)
	l.review("SelfSubjectRulesReview", `{"namespace":"default"}`)
	l.add("LocalSubjectAccessReview", http.MethodPost, "/apis/authorization.k8s.io/v1/namespaces/"+l.own+
		"/localsubjectaccessreviews", asJSON,
		`{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"`+l.own+
			`"},"spec":{"user":"a","resourceAttributes":{"namespace":"`+l.own+`","verb":"get","resource":"pods"}}}`)
	l.add("TokenReview", http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", asJSON,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"a"}}`)
	l.add("SelfSubjectReview", http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", asJSON,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	// webhooks are not called for their own configuration, nor for policies
	policy := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"` + l.own +
		`"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nones"]}]},"validations":[{"expression":"true"}]}}`
	l.add("ValidatingAdmissionPolicy", http.MethodPost,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", asJSON, policy)
	l.add("ValidatingAdmissionPolicy delete", http.MethodDelete,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"+l.own, "", "")
}

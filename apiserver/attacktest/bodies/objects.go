package bodies

import "strings"

// wide returns objects with long lists. Some of their validation compares each element with all
// others.
func (s scaled) wide() []Attack {
	spec := func(name, field, element string) Attack {
		return Attack{Name: "lists: " + name, Request: create(templates+"?dryRun=All",
			Template("p", `"containers":[{"name":"c","image":"i"}],"`+field+`":[`+Fill(s.size(), element)+`]`))}
	}
	container := func(name, field, element string) Attack {
		return Attack{Name: "lists: " + name, Request: create(templates+"?dryRun=All",
			Template("p", `"containers":[{"name":"c","image":"i","`+field+`":[`+Fill(s.size(), element)+`]}]`))}
	}
	object := func(name, apiVersion, kind, path, members string) Attack {
		return Attack{Name: "lists: " + name, Request: create(path+"?dryRun=All",
			Object(apiVersion, kind, "o", members))}
	}
	metadata := func(name, field, elements string) Attack {
		return Attack{Name: "metadata: " + name, Request: create(configMaps+"?dryRun=All",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","`+field+`":`+elements+`}}`)}
	}
	return []Attack{
		spec("topologySpreadConstraints", "topologySpreadConstraints", `{}`),
		spec("containers", "initContainers", `{}`),
		spec("volumes", "volumes", `{}`),
		spec("tolerations", "tolerations", `{}`),
		container("env", "env", `{"name":"e%d"}`),
		container("ports", "ports", `{"containerPort":1}`),
		container("volumeMounts", "volumeMounts", `{"name":"v%d"}`),
		object("ports of a Service", "v1", "Service", namespace+"services",
			`"spec":{"ports":[`+Fill(s.size(), `{"port":1,"name":"p%d"}`)+`]}`),
		object("addresses of a Service", "v1", "Service", namespace+"services",
			`"spec":{"ports":[{"port":1}],"clusterIPs":[`+Fill(s.size(), `"a%d"`)+`]}`),
		object("families of a Service", "v1", "Service", namespace+"services",
			`"spec":{"ports":[{"port":1}],"ipFamilies":[`+Fill(s.size(), `"a%d"`)+`]}`),
		object("rules of a NetworkPolicy", "networking.k8s.io/v1", "NetworkPolicy",
			"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
			`"spec":{"ingress":[`+Fill(s.size(), `{}`)+`]}`),
		object("matchExpressions", "apps/v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments",
			`"spec":{"selector":{"matchExpressions":[`+Fill(s.size()/2, `{"key":"k%d","operator":"Exists"}`)+
				`]},"template":{"metadata":{"labels":{`+
				Fill(s.size()/2, `"k%d":""`)+`}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`),
		metadata("ownerReferences", "ownerReferences",
			"["+Fill(s.size(), `{"apiVersion":"v1","kind":"Pod","name":"p","uid":"%d"}`)+"]"),
		metadata("finalizers", "finalizers", "["+Fill(s.size(), `"a/%d"`)+"]"),
		metadata("labels", "labels", "{"+Fill(s.size(), `"k%d":""`)+"}"),
		metadata("annotations", "annotations", "{"+Fill(s.size(), `"k%d":""`)+"}"),
		{Name: "unknown fields", Request: create(configMaps+"?dryRun=All",
			Object("v1", "ConfigMap", "o", Fill(s.size(), `"k%d":1`)))},
		{Name: "duplicate fields", Request: create(configMaps+"?dryRun=All",
			Object("v1", "ConfigMap", "o", Fill(s.size(), `"k":1`)))},
		{Name: "unknown fields of YAML", Request: Request{"POST", configMaps + "?dryRun=All", YAML,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o}\n" +
				strings.ReplaceAll(Fill(s.size(), `k%d: 1`), ",", "\n")}},
		{Name: "rbac: products of rules", Request: create(
			"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles?dryRun=All",
			Object("rbac.authorization.k8s.io/v1", "Role", "r",
				`"rules":[{"verbs":`+List(s.n(1_000), `"v%d"`)+`,"apiGroups":`+List(s.n(1_000), `"g%d"`)+
					`,"resources":`+List(s.n(1_000), `"r%d"`)+`}]`))},
		{Name: "rbac: rules", Request: create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles?dryRun=All",
			Object("rbac.authorization.k8s.io/v1", "Role", "r",
				`"rules":[`+Fill(s.size(), `{"verbs":["get"],"apiGroups":[""],"resources":["r%d"]}`)+`]`))},
	}
}

// reviews returns kinds that are never stored. Every user can create those about itself.
func (s scaled) reviews() []Attack {
	const (
		group = "authorization.k8s.io/v1"
		path  = "/apis/authorization.k8s.io/v1/"
	)
	review := func(name, kind, plural, spec string) Attack {
		return Attack{Name: "reviews: " + name,
			Request: create(path+plural, Object(group, kind, "", `"spec":{`+spec+`}`))}
	}
	return []Attack{
		review("field selectors", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
			`"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":[`+
				Fill(s.size(), `{"key":"k%d","operator":"Exists"}`)+`]}}`),
		review("a raw field selector", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
			`"resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"rawSelector":"`+
				Fill(s.size(), `a=b`)+`"}}`),
		review("a raw label selector", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
			`"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"rawSelector":"`+
				Fill(s.size(), `a%d`)+`"}}`),
		review("groups", "SubjectAccessReview", "subjectaccessreviews",
			`"user":"u","resourceAttributes":{"verb":"list","resource":"pods"},"groups":[`+Fill(s.size(), `"g%d"`)+`]`),
		review("extra", "SubjectAccessReview", "subjectaccessreviews",
			`"user":"u","resourceAttributes":{"verb":"list","resource":"pods"},"extra":{`+Fill(s.size(), `"e%d":[]`)+
				`}`),
		review("a name", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
			`"resourceAttributes":{"verb":"list","resource":"pods","name":"`+strings.Repeat("x", s.size())+`"}`),
	}
}

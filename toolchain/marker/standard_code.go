package marker

func objectFamily() Family {
	return Family{"Deep copies", "Which types get DeepCopy methods.", []Definition{
		{Name: "kubebuilder:object:generate", On: OnPackage | OnType, Value: Bool, Example: "true",
			Doc: "Whether the types of the package, or this type, get deep copies."},
		{Name: "kubebuilder:object:root", On: OnType, Value: Bool, Example: "true",
			Doc: "The type is a kind or a list of a kind. It also gets DeepCopyObject."},
		{Name: "k8s:deepcopy-gen", On: OnPackage | OnType, Value: Raw, Example: "package",
			Doc: "`package` on a package, `true` or `false` on a type."},
		{Name: "k8s:deepcopy-gen:interfaces", On: OnType, Value: Raw, Example: "k8s.io/apimachinery/pkg/runtime.Object",
			Doc: "The interfaces whose DeepCopy methods the type gets, with commas between. Only that of the example has an effect."},
		{Name: "k8s:deepcopy-gen:nonpointer-interfaces", On: OnType, Value: Bool, Inert: true,
			Doc: "Value receivers for that method. Kelson always generates pointer receivers."},
	}}
}

func roleFamily() Family {
	return Family{"Roles", "The rights of controllers. A method Finalize of a reconciler adds the verb patch for its kind without a marker.", []Definition{
		{Name: "kubebuilder:rbac", On: OnPackage, Example: "groups=batch,resources=jobs,verbs=get;list;watch",
			Args: []Arg{{"groups", Strings, true}, {"resources", Strings, true}, {"resourceNames", Strings, true},
				{"verbs", Strings, false},
				{"urls", Strings, true}, {"namespace", String, true}, {"roleName", String, true}},
			Doc: "A rule of the ClusterRole, or of a Role if namespace is set."},
	}}
}

func webhookFamily() Family {
	return Family{"Webhooks", "Configurations of admission webhooks.", []Definition{
		{Name: "kubebuilder:webhook", On: OnPackage,
			Example: "path=/validate-batch-v1-job,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch,resources=jobs,verbs=create;update,versions=v1,name=vjob.example.com,admissionReviewVersions=v1",
			Args: []Arg{{"mutating", Bool, false}, {"failurePolicy", String, false}, {"matchPolicy", String, true},
				{"sideEffects", String, true},
				{"timeoutSeconds", Int, true}, {"groups", Strings, false}, {"resources", Strings, false},
				{"verbs", Strings, false},
				{"versions", Strings, false}, {"name", String, false}, {"path", String, true},
				{"serviceName", String, true},
				{"serviceNamespace", String, true}, {"servicePort", Int, true}, {"webhookVersions", Strings, true},
				{"admissionReviewVersions", Strings, false}, {"reinvocationPolicy", String, true},
				{"url", String, true}, {"patch", String, true}},
			Doc: "A webhook at a path of the service or at a URL. patch is a strategic merge patch for the generated configuration."},
		{Name: "kubebuilder:webhookconfiguration", On: OnPackage,
			Args: []Arg{{"mutating", Bool, false}, {"name", String, true}}, Example: "mutating=true,name=mine",
			Doc: "The name of the configuration that contains the webhooks."},
	}}
}

// clientFamily is client-gen's.
func clientFamily() Family {
	return Family{"Clients", "Typed clients, listers and informers. These markers belong on the type of a kind.",
		[]Definition{
			{Name: "genclient", On: OnType, Doc: "The kind has a client."},
			{Name: "genclient:nonNamespaced", On: OnType, Doc: "The kind is cluster-scoped."},
			{Name: "genclient:noStatus", On: OnType,
				Doc: "The client has no UpdateStatus, even if the type has a Status field."},
			{Name: "genclient:noVerbs", On: OnType, Doc: "The client has only the methods of genclient:method."},
			{Name: "genclient:readonly", On: OnType, Doc: "The client has only get, list and watch."},
			{Name: "genclient:onlyVerbs", On: OnType, Value: Raw, Example: "create,get",
				Doc: "The methods of the client."},
			{Name: "genclient:skipVerbs", On: OnType, Value: Raw, Example: "delete,deleteCollection",
				Doc: "The methods that the client does not have."},
			{Name: "genclient:method", On: OnType, Value: Raw,
				Example: "UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale",
				Doc:     "An additional method, for a subresource or with other types."},
			{Name: "resourceName", On: OnType, Value: String, Example: "policies",
				Doc: "The resource, if it is not the plural of the kind."},
		}}
}

func applyFamily() Family {
	return Family{"Apply configurations", "Types whose fields are all optional, for server-side apply.", []Definition{
		{Name: "kubebuilder:ac:generate", On: OnPackage | OnType, Value: Bool, Example: "true",
			Doc: "Whether the kinds of the package, or this type, get apply configurations."},
		{Name: "kubebuilder:ac:output:package", On: OnPackage, Value: String, Example: "../applyconfiguration",
			Doc: "The output directory, relative to the package."},
	}}
}

// registrationFamily is register-gen's.
func registrationFamily() Family {
	return Family{"Registration", "SchemeGroupVersion and AddToScheme.", []Definition{
		{Name: "k8s:register-gen", On: OnPackage, Value: Raw, Optional: true, Example: "package",
			Doc: "Generate code that registers the kinds of the package."},
	}}
}

// defaultFamily is defaulter-gen's.
func defaultFamily() Family {
	return Family{"Defaulting", "Functions that set default values.", []Definition{
		{Name: "k8s:defaulter-gen", On: OnPackage | OnType, Value: Raw, Example: "TypeMeta",
			Doc: "On a package: types with this field are roots and get SetObjectDefaults functions. On a type: true or false, or covers if its defaulting function also sets the defaults of its fields."},
		{Name: "k8s:defaulter-gen:*", On: OnType, Value: Raw, Optional: true, Inert: true,
			Doc: "Accepted, without effect."},
		{Name: "k8s:defaulter-gen-input", On: OnPackage, Value: String, Inert: true,
			Doc: "Accepted, without effect: defaults are generated in the package of the types."},
	}}
}

// conversionFamily is conversion-gen's.
func conversionFamily() Family {
	return Family{"Conversion", "Functions between the versions of a kind.", []Definition{
		{Name: "k8s:conversion-gen", On: OnPackage | OnType | OnField, Value: Raw, Example: "example.com/shop/api/v2",
			Doc: "On a package: the package of the hub version. On a type or field: false excludes it."},
		{Name: "k8s:conversion-gen-external-types", On: OnPackage, Value: String,
			Doc: "The package with the types to convert, if it is another package."},
		{Name: "k8s:conversion-gen:explicit-from", On: OnType, Value: String, Example: "net/url.Values",
			Doc: "Also a conversion from the query of a request. No other type is supported."},
	}}
}

// openAPIFamily is openapi-gen's.
func openAPIFamily() Family {
	return Family{"OpenAPI", "Definitions as Go code.", []Definition{
		{Name: "k8s:openapi-gen", On: Anywhere, Value: Raw, Example: "true",
			Doc: "true or false; or an extension, `x-kubernetes-…:value`."},
		{Name: "k8s:openapi-model-package", On: OnPackage | OnType, Value: String, Example: "com.example.shop.v1",
			Doc: "The prefix of definition names."},
		{Name: "k8s:validation:*", On: OnField | OnType, Value: Raw, Optional: true, Example: "maxLength=10",
			Inert: true,
			Doc:   "OpenAPI validation values, named as in OpenAPI. Only Kubernetes' own definitions use them."},
		{Name: "union", On: OnField | OnType, Doc: "A struct with exactly one field set, in OpenAPI."},
		{Name: "unionDiscriminator", On: OnField, Doc: "The field that names the one that is set."},
		{Name: "unionDeprecated", On: OnField, Doc: "A deprecated member of the union."},
	}}
}

// lifecycleFamily is prerelease-lifecycle-gen's.
func lifecycleFamily() Family {
	f := Family{"API lifecycle", "The releases of your project that introduce and remove an API, such as `1.4`. The generator `lifecycle` writes methods for them; the library for custom API servers warns clients of deprecated kinds. An unstable version is deprecated three releases after its introduction and removed three releases later, unless markers say otherwise.", []Definition{
		{Name: "k8s:prerelease-lifecycle-gen", On: OnPackage | OnType, Value: Raw, Example: "true",
			Doc: "Every kind of the package must declare its lifecycle."},
	}}
	for _, n := range []string{"introduced", "deprecated", "removed", "replacement"} {
		f.Definitions = append(f.Definitions, Definition{Name: "k8s:prerelease-lifecycle-gen:" + n, On: OnType,
			Value: Raw,
			Doc: map[string]string{"introduced": "The release that introduced it.",
				"deprecated":  "The release that deprecated it.",
				"removed":     "The release that removes it.",
				"replacement": "The group, version and kind that replace it, with commas between."}[n]})
	}
	return f
}

func elsewhereFamily() Family {
	return Family{"Accepted, without effect", "Markers of other tools that occur in API packages.", []Definition{
		{Name: "k8s:protobuf-gen", On: OnPackage, Value: Raw, Inert: true, Doc: "Kubernetes' protobuf messages."},
		{Name: "protobuf", On: OnField | OnType, Value: Raw, Optional: true, Inert: true,
			Doc: "A detail of a protobuf message."},
		{Name: "protobuf.*", On: OnField | OnType, Value: Raw, Optional: true, Inert: true,
			Doc: "A detail of a protobuf message."},
		{Name: "kubebuilder:scaffold:*", On: Anywhere, Value: Raw, Optional: true, Inert: true,
			Doc: "A position for scaffolded code."},
		{Name: "kubebuilder:docs-gen:*", On: Anywhere, Value: Raw, Optional: true, Inert: true,
			Doc: "A marker of the kubebuilder book."},
		{Name: "kubebuilder:conversion:*", On: Anywhere, Value: Raw, Optional: true, Inert: true,
			Doc: "A marker of the kubebuilder book."},
		{Name: "domain", On: OnPackage, Value: Raw, Optional: true, Inert: true,
			Doc: "The domain of a project of apiserver-builder."},
		{Name: "build", On: OnPackage, Value: Raw, Optional: true, Inert: true,
			Doc: "A build constraint in the old form."},
	}}
}

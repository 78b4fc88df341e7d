package marker

// objectFamily asks for deep copies.
func objectFamily() Family {
	return Family{"Deep copies", "Which types get DeepCopy methods.", []Definition{
		{Name: "kubebuilder:object:generate", On: OnPackage | OnType, Value: Bool, Example: "true", Doc: "The package's types, or this one, get (or do not get) deep copies."},
		{Name: "kubebuilder:object:root", On: OnType, Value: Bool, Example: "true", Doc: "The type is a kind or a list of one: it gets DeepCopyObject too."},
		{Name: "k8s:deepcopy-gen", On: OnPackage | OnType, Value: Raw, Example: "package", Doc: "`package` on a package, `true` or `false` on a type."},
		{Name: "k8s:deepcopy-gen:interfaces", On: OnType, Value: String, Example: "k8s.io/apimachinery/pkg/runtime.Object", Doc: "The interface whose DeepCopy method the type gets."},
		{Name: "k8s:deepcopy-gen:nonpointer-interfaces", On: OnType, Value: Bool, Inert: true, Doc: "That method would have a value receiver. Kelson's always have pointers."},
	}}
}

// roleFamily is RBAC.
func roleFamily() Family {
	return Family{"Roles", "What controllers may do.", []Definition{
		{Name: "kubebuilder:rbac", On: OnPackage, Example: "groups=batch,resources=jobs,verbs=get;list;watch",
			Args: []Arg{{"groups", Strings, true}, {"resources", Strings, true}, {"resourceNames", Strings, true}, {"verbs", Strings, false},
				{"urls", Strings, true}, {"namespace", String, true}, {"roleName", String, true}},
			Doc: "A rule of the ClusterRole; of a Role if it has a namespace."},
	}}
}

// webhookFamily is the configuration of admission webhooks.
func webhookFamily() Family {
	return Family{"Webhooks", "The configurations of admission webhooks.", []Definition{
		{Name: "kubebuilder:webhook", On: OnPackage,
			Example: "path=/validate-batch-v1-job,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch,resources=jobs,verbs=create;update,versions=v1,name=vjob.example.com,admissionReviewVersions=v1",
			Args: []Arg{{"mutating", Bool, false}, {"failurePolicy", String, false}, {"matchPolicy", String, true}, {"sideEffects", String, true},
				{"timeoutSeconds", Int, true}, {"groups", Strings, false}, {"resources", Strings, false}, {"verbs", Strings, false},
				{"versions", Strings, false}, {"name", String, false}, {"path", String, true}, {"serviceName", String, true},
				{"serviceNamespace", String, true}, {"servicePort", Int, true}, {"webhookVersions", Strings, true},
				{"admissionReviewVersions", Strings, false}, {"reinvocationPolicy", String, true}, {"url", String, true}, {"patch", String, true}},
			Doc: "A webhook, at a path of the service or at a url. patch is a strategic merge patch of what is generated."},
		{Name: "kubebuilder:webhookconfiguration", On: OnPackage, Args: []Arg{{"mutating", Bool, false}, {"name", String, true}}, Example: "mutating=true,name=mine",
			Doc: "The name of the configuration that the webhooks go to."},
	}}
}

// clientFamily is client-gen's.
func clientFamily() Family {
	return Family{"Clients", "Typed clients, listers and informers. They stand on a kind's type.", []Definition{
		{Name: "genclient", On: OnType, Doc: "The kind has a client."},
		{Name: "genclient:nonNamespaced", On: OnType, Doc: "Objects are in no namespace."},
		{Name: "genclient:noStatus", On: OnType, Doc: "There is no UpdateStatus, though the type has a Status field."},
		{Name: "genclient:noVerbs", On: OnType, Doc: "The client has no methods but its own."},
		{Name: "genclient:readonly", On: OnType, Doc: "The client has get, list and watch alone."},
		{Name: "genclient:onlyVerbs", On: OnType, Value: Raw, Example: "create,get", Doc: "The methods there are."},
		{Name: "genclient:skipVerbs", On: OnType, Value: Raw, Example: "delete,deleteCollection", Doc: "The methods there are not."},
		{Name: "genclient:method", On: OnType, Value: Raw, Example: "UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale",
			Doc: "A further method, of a subresource or with other types."},
		{Name: "resourceName", On: OnType, Value: String, Example: "policies", Doc: "The resource, where it is not the kind's plural."},
	}}
}

// applyFamily is that of apply configurations.
func applyFamily() Family {
	return Family{"Apply configurations", "Types whose fields are all optional, for server-side apply.", []Definition{
		{Name: "kubebuilder:ac:generate", On: OnPackage | OnType, Value: Bool, Example: "true", Doc: "The package's kinds, or this type, get (or do not get) apply configurations."},
		{Name: "kubebuilder:ac:output:package", On: OnPackage, Value: String, Example: "../applyconfiguration", Doc: "Where they go, from the package's directory."},
	}}
}

// registrationFamily is register-gen's.
func registrationFamily() Family {
	return Family{"Registration", "SchemeGroupVersion and AddToScheme.", []Definition{
		{Name: "k8s:register-gen", On: OnPackage, Value: Raw, Optional: true, Example: "package", Doc: "The package's kinds are registered by generated code."},
	}}
}

// defaultFamily is defaulter-gen's.
func defaultFamily() Family {
	return Family{"Defaulting", "Functions that fill in what is missing.", []Definition{
		{Name: "k8s:defaulter-gen", On: OnPackage | OnType, Value: Raw, Example: "TypeMeta",
			Doc: "On a package: types with this field are roots, for which SetObjectDefaults functions are made. On a type: true or false; covers says that its defaulting covers its fields."},
		{Name: "k8s:defaulter-gen:*", On: OnType, Value: Raw, Optional: true, Inert: true, Doc: "Understood, without effect."},
		{Name: "k8s:defaulter-gen-input", On: OnPackage, Value: String, Doc: "The package whose types are defaulted, where it is another."},
	}}
}

// conversionFamily is conversion-gen's.
func conversionFamily() Family {
	return Family{"Conversion", "Functions between the versions of a kind.", []Definition{
		{Name: "k8s:conversion-gen", On: OnPackage | OnType | OnField, Value: Raw, Example: "example.com/shop/api/v2",
			Doc: "On a package: the package (the hub) to whose types this one's convert. On a type or field: false leaves it out."},
		{Name: "k8s:conversion-gen-external-types", On: OnPackage, Value: String, Doc: "The package with the types to convert, where it is another."},
		{Name: "k8s:conversion-gen:explicit-from", On: OnType, Value: String, Inert: true, Doc: "A conversion from another type, which must be written by hand."},
	}}
}

// openAPIFamily is openapi-gen's.
func openAPIFamily() Family {
	return Family{"OpenAPI", "Definitions as Go code.", []Definition{
		{Name: "k8s:openapi-gen", On: Anywhere, Value: Raw, Example: "true", Doc: "true or false; or an extension, `x-kubernetes-…:value`."},
		{Name: "k8s:openapi-model-package", On: OnPackage | OnType, Value: String, Example: "com.example.shop.v1", Doc: "The prefix of the definitions' names."},
		{Name: "k8s:validation:*", On: OnField | OnType, Value: Raw, Optional: true, Example: "maxLength=10", Inert: true,
			Doc: "Values of OpenAPI validation, by their names in the document. Only Kubernetes' own definitions use them."},
		{Name: "union", On: OnField | OnType, Doc: "A struct of which one field is set, in OpenAPI."},
		{Name: "unionDiscriminator", On: OnField, Doc: "The field that says which one."},
		{Name: "unionDeprecated", On: OnField, Doc: "A member that clients should leave."},
	}}
}

// lifecycleFamily is prerelease-lifecycle-gen's.
func lifecycleFamily() Family {
	f := Family{"Life of an API", "When a version came and goes, in releases. Read by Kubernetes' own build; understood, without effect.", []Definition{
		{Name: "k8s:prerelease-lifecycle-gen", On: OnPackage | OnType, Value: Raw, Example: "true", Inert: true, Doc: "The package's, or the type's, life is told."},
	}}
	for _, n := range []string{"introduced", "deprecated", "removed", "replacement"} {
		f.Definitions = append(f.Definitions, Definition{Name: "k8s:prerelease-lifecycle-gen:" + n, On: OnType, Value: Raw, Inert: true,
			Doc: map[string]string{"introduced": "The release in which it came.", "deprecated": "The release since which it is deprecated.",
				"removed": "The release in which it goes.", "replacement": "The group, version and kind that takes its place."}[n]})
	}
	return f
}

// elsewhereFamily are markers of other tools that stand in API packages.
func elsewhereFamily() Family {
	return Family{"Understood, without effect", "Markers of other tools that stand in API packages.", []Definition{
		{Name: "k8s:protobuf-gen", On: OnPackage, Value: Raw, Inert: true, Doc: "Kubernetes' protobuf messages."},
		{Name: "protobuf", On: OnField | OnType, Value: Raw, Optional: true, Inert: true, Doc: "A detail of a protobuf message."},
		{Name: "protobuf.*", On: OnField | OnType, Value: Raw, Optional: true, Inert: true, Doc: "A detail of a protobuf message."},
		{Name: "kubebuilder:scaffold:*", On: Anywhere, Value: Raw, Optional: true, Inert: true, Doc: "A place where scaffolding puts code."},
		{Name: "kubebuilder:docs-gen:*", On: Anywhere, Value: Raw, Optional: true, Inert: true, Doc: "A marker of the kubebuilder book."},
		{Name: "kubebuilder:conversion:*", On: Anywhere, Value: Raw, Optional: true, Inert: true, Doc: "A marker of the kubebuilder book."},
		{Name: "domain", On: OnPackage, Value: Raw, Optional: true, Inert: true, Doc: "The domain of a project of apiserver-builder."},
		{Name: "build", On: OnPackage, Value: Raw, Optional: true, Inert: true, Doc: "A build constraint in its old form."},
	}}
}

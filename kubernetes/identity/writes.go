package identity

// Component is a part of the control plane that writes objects.
type Component struct {
	Name string
	// User is the name of the user as which it sends requests.
	User string
	// Role is the role that allows them: Kubernetes' bootstrap role, unless it begins with
	// "kelson:".
	Role string
	// Writes are its writes, for example "update deployments.apps/status". Rare are those of them
	// that the test of all controllers does not always cause.
	Writes, Rare []string
}

// DirectWrite is a write to the store that is part of another write, or not a request, so that
// admission and audit do not see it.
type DirectWrite struct {
	Resource string
	What     string
	Why      string
}

// serviceAccount returns the component of a controller of kube-controller-manager.
func serviceAccount(name, account string, writes ...string) Component {
	return Component{Name: name, User: "system:serviceaccount:kube-system:" + account,
		Role: "system:controller:" + account, Writes: writes}
}

// own returns a component that Kubernetes does not have.
func own(name, account string, writes ...string) Component {
	c := serviceAccount(name, account, writes...)
	c.Role = (&Role{Account: account}).Name()
	return c
}

// rare adds writes to a component that the test of all controllers does not always cause.
func (c Component) rare(writes ...string) Component {
	c.Writes, c.Rare = append(c.Writes, writes...), writes
	return c
}

// Components returns all components, and what each writes.
func Components() []Component {
	return []Component{
		Component{
			Name: "API server: initial objects, endpoints, APIServices, repair of IPAddresses, status of definitions and budgets, legacy tokens, leader election",
			User: "system:apiserver", Role: "cluster-admin",
			Writes: []string{
				"create apiservices.apiregistration.k8s.io", "delete apiservices.apiregistration.k8s.io",
				"create clusterrolebindings.rbac.authorization.k8s.io",
				"update clusterrolebindings.rbac.authorization.k8s.io",
				"create clusterroles.rbac.authorization.k8s.io", "create configmaps",
				"update customresourcedefinitions.apiextensions.k8s.io/status", "create endpoints",
				"create endpointslices.discovery.k8s.io", "create events",
				"create flowschemas.flowcontrol.apiserver.k8s.io",
				"update flowschemas.flowcontrol.apiserver.k8s.io",
				"patch flowschemas.flowcontrol.apiserver.k8s.io/status",
				"create ipaddresses.networking.k8s.io", "create namespaces",
				"update poddisruptionbudgets.policy/status", "create priorityclasses.scheduling.k8s.io",
				"create prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
				"create rolebindings.rbac.authorization.k8s.io", "create roles.rbac.authorization.k8s.io",
				"create servicecidrs.networking.k8s.io", "patch servicecidrs.networking.k8s.io/status",
				"create services",
			},
		}.rare(
			"create leases.coordination.k8s.io", "delete endpointslices.discovery.k8s.io",
			"delete flowschemas.flowcontrol.apiserver.k8s.io", "delete ipaddresses.networking.k8s.io",
			"delete leases.coordination.k8s.io",
			"delete prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
			"patch apiservices.apiregistration.k8s.io", "patch apiservices.apiregistration.k8s.io/status",
			"patch events", "patch secrets", "update clusterroles.rbac.authorization.k8s.io",
			"update configmaps", "update endpoints", "update endpointslices.discovery.k8s.io",
			"update leases.coordination.k8s.io",
			"update prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
			"update rolebindings.rbac.authorization.k8s.io", "update roles.rbac.authorization.k8s.io",
			"update servicecidrs.networking.k8s.io",
		),
		Component{
			Name: "serviceaccount-token-controller",
			User: "system:kube-controller-manager", Role: "system:kube-controller-manager",
			Writes: []string{
				"delete secrets", "update secrets",
			},
		},
		Component{
			Name: "scheduler",
			User: "system:kube-scheduler", Role: "system:kube-scheduler",
			Writes: []string{
				"create events.events.k8s.io", "patch events.events.k8s.io", "update persistentvolumeclaims",
				"create pods/binding", "patch pods/status",
			},
		}.rare(
			"delete pods", "patch persistentvolumeclaims", "patch podgroups.scheduling.k8s.io/status",
			"update persistentvolumes", "update resourceclaims.resource.k8s.io",
			"update resourceclaims.resource.k8s.io/status",
		),
		Component{
			Name: "simulated nodes and nodes of processes",
			User: "system:node:NAME", Role: "mode Node",
			Writes: []string{
				"create certificatesigningrequests.certificates.k8s.io", "create csinodes.storage.k8s.io",
				"create events", "create leases.coordination.k8s.io", "update leases.coordination.k8s.io",
				"patch nodes", "patch nodes/status", "delete pods", "patch pods/status",
			},
		}.rare(
			"create nodes", "create serviceaccounts/token", "patch csinodes.storage.k8s.io", "patch events",
		),
		serviceAccount("certificatesigningrequest controllers", "certificate-controller",
			"delete certificatesigningrequests.certificates.k8s.io",
			"update certificatesigningrequests.certificates.k8s.io/approval",
			"update certificatesigningrequests.certificates.k8s.io/status",
		),
		serviceAccount("clusterrole-aggregation-controller", "clusterrole-aggregation-controller",
			"patch clusterroles.rbac.authorization.k8s.io",
		),
		serviceAccount("cronjob-controller", "cronjob-controller",
			"update cronjobs.batch/status", "create events", "patch events", "create jobs.batch",
			"delete jobs.batch",
		).rare(
			"patch jobs.batch", "update cronjobs.batch",
		),
		serviceAccount("daemonset-controller", "daemon-set-controller",
			"create controllerrevisions.apps", "update daemonsets.apps/status", "create events", "create pods",
			"delete pods",
		).rare(
			"delete controllerrevisions.apps", "patch events", "patch pods", "update controllerrevisions.apps",
		),
		serviceAccount("deployment-controller", "deployment-controller",
			"update deployments.apps/status", "create events", "create replicasets.apps",
			"update replicasets.apps",
		).rare(
			"delete replicasets.apps", "patch events", "patch replicasets.apps", "update deployments.apps",
		),
		serviceAccount("device-taint-eviction-controller", "device-taint-eviction-controller").rare(
			"create events", "delete pods", "patch devicetaintrules.resource.k8s.io/status", "patch events",
			"patch pods/status",
		),
		serviceAccount("disruption-controller", "disruption-controller",
			"create events", "patch events", "update poddisruptionbudgets.policy/status",
		).rare(
			"update pods/status",
		),
		serviceAccount("endpoints-controller", "endpoint-controller",
			"create endpoints", "delete endpoints", "update endpoints",
		).rare(
			"create events", "patch events",
		),
		serviceAccount("endpointslice-controller", "endpointslice-controller",
			"create endpointslices.discovery.k8s.io", "update endpointslices.discovery.k8s.io",
		).rare(
			"create events", "delete endpointslices.discovery.k8s.io", "patch events",
		),
		serviceAccount("endpointslice-mirroring-controller", "endpointslicemirroring-controller",
			"create endpointslices.discovery.k8s.io",
		).rare(
			"create events", "delete endpointslices.discovery.k8s.io", "patch events",
			"update endpointslices.discovery.k8s.io",
		),
		serviceAccount("ephemeral-volume-controller", "ephemeral-volume-controller",
			"create persistentvolumeclaims",
		).rare(
			"create events", "patch events",
		),
		serviceAccount("garbage-collector-controller", "generic-garbage-collector",
			"delete *", "patch *",
		).rare(
			"create events", "patch events",
		),
		serviceAccount("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler",
			"update deployments.apps/scale", "create events", "patch events",
			"update horizontalpodautoscalers.autoscaling/status",
		).rare(
			"update replicasets.apps/scale", "update replicationcontrollers/scale",
			"update statefulsets.apps/scale",
		),
		serviceAccount("job-controller", "job-controller",
			"create events", "update jobs.batch/status", "create pods", "patch pods",
		).rare(
			"delete pods", "patch events", "patch jobs.batch",
		),
		serviceAccount("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner").rare(
			"delete secrets", "patch secrets",
		),
		serviceAccount("namespace-controller", "namespace-controller",
			"deletecollection *", "update namespaces/finalize", "update namespaces/status",
		).rare(
			"delete *",
		),
		serviceAccount("node-lifecycle-, node-ipam- and taint-eviction-controller", "node-controller",
			"create events", "patch nodes", "update nodes/status", "delete pods", "patch pods/status",
		).rare(
			"patch events", "patch nodes/status", "update nodes",
		),
		serviceAccount("persistentvolume-binder-controller", "persistent-volume-binder",
			"create events", "update persistentvolumeclaims",
			"update persistentvolumeclaims/status", "update persistentvolumes/status",
		).rare(
			"patch events", "delete persistentvolumes", "update persistentvolumes",
		),
		serviceAccount("persistentvolume-protection-controller", "pv-protection-controller",
			"update persistentvolumes",
		),
		serviceAccount("persistentvolumeclaim-protection-controller", "pvc-protection-controller",
			"update persistentvolumeclaims",
		),
		serviceAccount("pod-garbage-collector-controller", "pod-garbage-collector",
			"delete pods", "patch pods/status",
		),
		serviceAccount("podcertificaterequest-cleaner-controller", "podcertificaterequestcleaner").rare(
			"delete podcertificaterequests.certificates.k8s.io",
		),
		serviceAccount("podgroup-protection-controller", "podgroup-protection-controller").rare(
			"update podgroups.scheduling.k8s.io",
		),
		serviceAccount("replicaset-controller", "replicaset-controller",
			"create events", "create pods", "update replicasets.apps/status",
		).rare(
			"delete pods", "patch events", "patch pods",
		),
		serviceAccount("replicationcontroller-controller", "replication-controller",
			"create events", "create pods", "update replicationcontrollers/status",
		).rare(
			"delete pods", "patch events", "patch pods",
		),
		serviceAccount("resourceclaim-controller", "resource-claim-controller",
			"patch pods/status", "create resourceclaims.resource.k8s.io",
		).rare(
			"create events", "delete resourceclaims.resource.k8s.io", "patch events",
			"update resourceclaims.resource.k8s.io", "update resourceclaims.resource.k8s.io/status",
		),
		serviceAccount("resourcepoolstatusrequest-controller", "resourcepoolstatusrequest-controller").rare(
			"delete resourcepoolstatusrequests.resource.k8s.io",
			"update resourcepoolstatusrequests.resource.k8s.io/status",
		),
		serviceAccount("resourcequota-controller", "resourcequota-controller",
			"update resourcequotas/status",
		),
		serviceAccount("root-ca-certificate-publisher-controller", "root-ca-cert-publisher",
			"create configmaps",
		).rare(
			"update configmaps",
		),
		serviceAccount("service-cidr-controller", "service-cidrs-controller",
			"update servicecidrs.networking.k8s.io", "update servicecidrs.networking.k8s.io/status",
		),
		serviceAccount("service-lb-controller", "service-controller",
			"create events", "update services/status",
		).rare(
			"patch events",
		),
		serviceAccount("serviceaccount-controller", "service-account-controller",
			"create serviceaccounts",
		),
		serviceAccount("statefulset-controller", "statefulset-controller",
			"create controllerrevisions.apps", "create events", "create persistentvolumeclaims", "create pods",
			"update statefulsets.apps/status",
		).rare(
			"delete controllerrevisions.apps", "delete persistentvolumeclaims", "delete pods", "patch events",
			"patch pods", "update controllerrevisions.apps", "update persistentvolumeclaims", "update pods",
		),
		serviceAccount("storage-version-migrator-controller", "storage-version-migrator-controller").rare(
			"patch *", "patch customresourcedefinitions.apiextensions.k8s.io/status",
			"update storageversionmigrations.storagemigration.k8s.io/status",
		),
		serviceAccount("token-cleaner-controller", "token-cleaner",
			"delete secrets",
		),
		serviceAccount("ttl-after-finished-controller", "ttl-after-finished-controller",
			"delete jobs.batch",
		),
		serviceAccount("validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status-controller",
			"patch validatingadmissionpolicies.admissionregistration.k8s.io/status",
		),
		serviceAccount("volumeattributesclass-protection-controller", "volumeattributesclass-protection-controller",
			"update volumeattributesclasses.storage.k8s.io",
		),
		own("approval of serving certificates of kubelets", "kelson-serving-approver",
			"update certificatesigningrequests.certificates.k8s.io/approval",
		),
		own("Nodes of groups of simulated nodes", "kelson-simulated-nodes",
			"create nodes",
		),
		own("simulated volumes", "kelson-simulated-volumes",
			"create csidrivers.storage.k8s.io", "create events", "update persistentvolumeclaims/status",
			"create persistentvolumes", "delete persistentvolumes", "update persistentvolumes",
			"create storageclasses.storage.k8s.io", "create volumeattachments.storage.k8s.io",
			"delete volumeattachments.storage.k8s.io", "update volumeattachments.storage.k8s.io/status",
		).rare(
			"patch events",
		),
		own("KWOK's Stages", "kwok-controller").rare(
			"create *", "delete *", "patch *", "update *",
		),
	}
}

// Direct returns the writes that admission and audit do not see.
func Direct() []DirectWrite {
	return []DirectWrite{
		{"events", "the deletion of an Event at the end of its lifetime",
			"Kubernetes skips it too: etcd deletes Events with their lease (`pkg/registry/core/event/storage`)."},
		{"pods/eviction, pods/binding", "the condition, the deletion and the node of a pod that an Eviction or a Binding names",
			"Kubernetes skips it too: admission and audit see the Eviction or the Binding (`pkg/registry/core/pod/storage/eviction.go`, `storage.go`)."},
		{"custom objects", "the deletion of the instances of a definition that is being deleted",
			"Kubernetes skips it too: `pkg/controller/finalizer/crd_finalizer.go` of apiextensions-apiserver deletes in the storage."},
		{"ipaddresses.networking.k8s.io", "the IPAddresses of a Service, with the Service",
			"One unit: no IPAddress exists without its Service. kube-apiserver creates them with requests of `system:apiserver`."},
		{"resourcequotas", "the usage that a write adds, with this write",
			"One unit: the status is exact. kube-apiserver updates it with a request of `system:apiserver`. The controller's updates are requests."},
		{"roles, bindings, FlowSchemas, PriorityLevelConfigurations, local APIServices",
			"their creation at the start, if audit is off, and no webhook, policy or configuration of a plugin exists",
			"Nothing could see these requests. Otherwise they are requests of `system:apiserver`."},
		{"objects of a StorageVersionMigration", "the same object in its current form",
			"The content does not change. kube-controller-manager sends patches that change nothing; objects of aggregated servers get these patches here, too."},
	}
}

// Package deployed runs the operator of an existing project as the project deploys it, on this
// machine: with the arguments, environment, volumes, service account and probes of its Deployment,
// and the other deployed objects.
//
//	config/default ─ Source ─▶ Manifests ─▶ objects         applied to the cluster
//	                               └──────▶ the Deployment  applied for the node of this machine
//	go build ────────────────▶ the image's directory ─────▶ Node: a node agent that runs its pod
//
// The pod of the Deployment is a process of this machine with its own root directory, in which the
// built program replaces the image (see package kelson.dev/kubernetes/node/process). What the
// cluster does for a pod works here too: Secrets that a certificate controller rotates appear in
// volumes, Services resolve to the pod once it is ready, and the service account's roles apply.
package deployed

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/toolchain/adopt"
)

// ErrNone means that a project has no kustomization that deploys an operator.
var ErrNone = errors.New("the project deploys no operator with config/default")

// Manifests are the objects that a project deploys.
type Manifests struct {
	// Definitions are the CustomResourceDefinitions.
	Definitions manifests.Objects
	// Objects are all other objects except workloads, in an order in which they can be applied.
	Objects manifests.Objects
	// Manager is the operator's Deployment, changed to run on the node with NodeName.
	Manager *appsv1.Deployment
	// Files are the files of the project in the operator's image, beside its program.
	Files []adopt.ImageFile
	// Notes describe the differences from the project's deployment, one per line.
	Notes []string

	folder string // of the kustomization, relative to the project
}

const (
	// NodeName is the name of the node that runs the operator.
	NodeName = "kelson-dev"
	// image is the image of the operator's container, whose files are in the Node's directory.
	image = "kelson-dev"
	// program is the name of the operator's program in the image.
	program = "manager"
)

// Source reads what a project deploys, repeatedly. The certificates stay the same.
type Source struct {
	// Dir is the project's folder.
	Dir string
	// Loopback means that the operator's pod has a loopback address, which Endpoints cannot have.
	// The control plane then reaches the Services of the pod by [services.URL].
	Loopback bool

	secrets map[string]*unstructured.Unstructured // of Certificates, by their JSON
	serving string                                // the folder of Certify, or ""
}

// Read builds the project's config/default, or the kustomization that its Makefile deploys instead.
// It returns ErrNone if the project has no such kustomization, or one without an operator. It
// downloads nothing: remote resources are omitted, as are those that do not exist.
func (s *Source) Read() (*Manifests, error) {
	folder, call, err := adopt.Deployment(s.Dir)
	if err != nil {
		return nil, err
	}
	if !adopt.HasKustomization(folder) {
		return nil, ErrNone
	}
	all, omitted, err := manifests.BuildLocal(folder)
	if err != nil {
		return nil, err
	}
	m := &Manifests{folder: folder}
	if rel, err := filepath.Rel(s.Dir, folder); err == nil {
		m.folder = filepath.ToSlash(rel)
	}
	if call != "" {
		m.note("adopted %s, which make deploy applies (%s)", m.folder, call)
	}
	m.Files = adopt.ImageFiles(s.Dir)
	for _, f := range m.Files {
		m.note("the operator's image has %s at %s, as its Dockerfile copies it", f.Source, f.To)
	}
	for _, url := range omitted.Remote {
		m.note("omitted %s, which %s downloads", url, m.folder)
	}
	for _, err := range omitted.Missing {
		m.note("continuing without a resource: %v", err)
	}
	manager, err := m.split(all, managerNames(s.Dir))
	if err != nil {
		return nil, err
	}
	m.Manager = manager
	m.namespaces()
	m.account()
	if s.serving != "" {
		m.certify(s.serving)
	}
	if err := s.certificates(m); err != nil {
		return nil, err
	}
	if s.Loopback {
		m.withoutEndpoints()
	}
	return m, nil
}

func (m *Manifests) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// managerNames returns the names of the workloads in config/manager, without the prefixes and
// suffixes of config/default.
func managerNames(dir string) (names []string) {
	for _, folder := range []string{"manager", "components/manager"} {
		found, _, err := manifests.BuildLocal(filepath.Join(dir, "config", filepath.FromSlash(folder)))
		if err != nil {
			continue
		}
		for _, obj := range found {
			if slices.Contains(keepRunning, obj.GetKind()) {
				names = append(names, obj.GetName())
			}
		}
	}
	return names
}

// workloads are the kinds that run pods, and keepRunning are those that can run an operator.
var (
	workloads   = []string{"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"}
	keepRunning = workloads[:3]
)

// split sorts the objects of the kustomization and returns the operator's Deployment.
func (m *Manifests) split(all manifests.Objects, names []string) (*appsv1.Deployment, error) {
	var deployments []*appsv1.Deployment
	var others []string
	for _, obj := range all {
		switch kind := obj.GetKind(); {
		case kind == "CustomResourceDefinition":
			m.Definitions = append(m.Definitions, obj)
		case slices.Contains(keepRunning, kind):
			d, err := asDeployment(obj)
			if err != nil {
				return nil, err
			}
			deployments = append(deployments, d)
		case slices.Contains(workloads, kind):
			others = append(others, kind+" "+obj.GetName())
		default:
			m.Objects = append(m.Objects, obj)
		}
	}
	slices.SortStableFunc(deployments, func(a, b *appsv1.Deployment) int {
		return cmp.Compare(slices.Index(keepRunning, a.Kind), slices.Index(keepRunning, b.Kind))
	})
	at := pick(deployments, names)
	if at < 0 {
		return nil, ErrNone
	}
	for i, d := range deployments {
		if i != at {
			others = append(others, d.Kind+" "+d.Name)
		}
	}
	if d := deployments[at]; d.Kind != "Deployment" {
		m.note("%s %s runs as a Deployment, with one pod", d.Kind, d.Name)
	}
	if len(others) > 0 {
		m.note("not run: %s", strings.Join(others, ", "))
	}
	m.unserved(deployments, at)
	return m.local(deployments[at])
}

// asDeployment returns a Deployment with the pods of a DaemonSet or StatefulSet, or a Deployment
// itself. The Kind stays that of the object. Volumes of claims are empty directories.
func asDeployment(obj *unstructured.Unstructured) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, d); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	claims, _, err := unstructured.NestedSlice(obj.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	for _, claim := range claims {
		claim, _ := claim.(map[string]any)
		name, _, _ := unstructured.NestedString(claim, "metadata", "name")
		d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: name,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return d, nil
}

// pick returns the index of the operator's Deployment: the one of config/manager, otherwise the
// first one with a container named manager, otherwise the first one. It returns -1 if there is
// none. Deployments come before other kinds.
func pick(all []*appsv1.Deployment, names []string) int {
	for i, d := range all {
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(d.Name, n) }) {
			return i
		}
	}
	for i, d := range all {
		if slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
			return c.Name == program
		}) {
			return i
		}
	}
	return min(0, len(all)-1)
}

// namespaces adds the namespaces of objects that the project expects to exist.
func (m *Manifests) namespaces() {
	exists := map[string]bool{"": true, "default": true, "kube-system": true, "kube-public": true}
	for _, obj := range m.Objects {
		if obj.GetKind() == "Namespace" {
			exists[obj.GetName()] = true
		}
	}
	add := func(name string) {
		if exists[name] {
			return
		}
		exists[name] = true
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		obj.SetName(name)
		m.Objects = append(manifests.Objects{obj}, m.Objects...)
	}
	m.Manager.Namespace = cmp.Or(m.Manager.Namespace, "default")
	add(m.Manager.Namespace)
	for _, obj := range m.Objects {
		add(obj.GetNamespace())
	}
}

// account adds the operator's service account if another tool creates it, such as OLM.
func (m *Manifests) account() {
	name := m.Manager.Spec.Template.Spec.ServiceAccountName
	if name == "" || name == "default" || slices.ContainsFunc(m.Objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ServiceAccount" && o.GetName() == name
	}) {
		return
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	obj.SetNamespace(m.Manager.Namespace)
	obj.SetName(name)
	for _, binding := range m.Objects {
		subjects, ok, _ := unstructured.NestedSlice(binding.Object, "subjects")
		for _, s := range subjects {
			// kustomize sets the namespace only of accounts that it builds
			if s, isMap := s.(map[string]any); isMap && s["kind"] == "ServiceAccount" && s["name"] == name {
				s["namespace"] = m.Manager.Namespace
			}
		}
		if ok {
			_ = unstructured.SetNestedSlice(binding.Object, subjects, "subjects")
		}
	}
	m.Objects = append(m.Objects, obj)
	m.note("added the ServiceAccount %s, which %s lacks", name, m.folder)
}

// DisableWebhooks removes the webhook configurations, and sets ENABLE_WEBHOOKS=false in the
// operator's environment, with which operators in kubebuilder's layout serve no webhooks.
func (m *Manifests) DisableWebhooks() {
	m.Objects = slices.DeleteFunc(m.Objects, func(obj *unstructured.Unstructured) bool {
		return strings.HasSuffix(obj.GetKind(), "WebhookConfiguration")
	})
	c := &m.Manager.Spec.Template.Spec.Containers[0]
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "ENABLE_WEBHOOKS" })
	c.Env = append(c.Env, corev1.EnvVar{Name: "ENABLE_WEBHOOKS", Value: "false"})
}

// Defines reports whether the project defines kinds of an API group.
func (m *Manifests) Defines(group string) bool {
	return slices.ContainsFunc(m.Definitions, func(obj *unstructured.Unstructured) bool {
		crdGroup, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		return crdGroup == group
	})
}

// unserved removes the webhook configurations, conversion webhooks and APIServices whose Services
// select only pods that do not run.
func (m *Manifests) unserved(all []*appsv1.Deployment, at int) {
	dead := map[string]bool{}
	for _, obj := range m.Objects {
		if obj.GetKind() != "Service" {
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "selector")
		if len(selector) > 0 && !selects(selector, all[at]) &&
			slices.ContainsFunc(all, func(d *appsv1.Deployment) bool { return selects(selector, d) }) {
			dead[obj.GetNamespace()+"/"+obj.GetName()] = true
		}
	}
	m.Objects = slices.DeleteFunc(m.Objects, func(obj *unstructured.Unstructured) bool {
		for _, ref := range serviceRefs(obj) {
			namespace, _ := ref["namespace"].(string)
			name, _ := ref["name"].(string)
			if dead[namespace+"/"+name] {
				m.note("not registered: %s %s, whose server is not run", obj.GetKind(), obj.GetName())
				return true
			}
		}
		return false
	})
	for _, crd := range m.Definitions {
		for _, ref := range serviceRefs(crd) {
			namespace, _ := ref["namespace"].(string)
			name, _ := ref["name"].(string)
			if dead[namespace+"/"+name] {
				unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
				m.note("not registered: the conversion webhook of %s, whose server is not run", crd.GetName())
			}
		}
	}
}

func selects(selector map[string]string, d *appsv1.Deployment) bool {
	for key, value := range selector {
		if d.Spec.Template.Labels[key] != value {
			return false
		}
	}
	return true
}

// serviceRefs returns the references to Services of a webhook configuration, a conversion webhook
// or an APIService.
func serviceRefs(obj *unstructured.Unstructured) (refs []map[string]any) {
	add := func(fields map[string]any, path ...string) {
		if ref, ok, _ := unstructured.NestedMap(fields, path...); ok {
			refs = append(refs, ref)
		}
	}
	switch obj.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
		for _, hook := range hooks {
			if hook, ok := hook.(map[string]any); ok {
				add(hook, "clientConfig", "service")
			}
		}
	case "CustomResourceDefinition":
		add(obj.Object, "spec", "conversion", "webhook", "clientConfig", "service")
	case "APIService":
		add(obj.Object, "spec", "service")
	}
	return refs
}

// hasten makes a probe run every second from the start, and raises its failure threshold, so that
// it fails after the same time as before.
func hasten(probe *corev1.Probe) {
	if probe == nil {
		return
	}
	period, failures := max(probe.PeriodSeconds, 1), max(probe.FailureThreshold, 3)
	probe.FailureThreshold = failures*period + probe.InitialDelaySeconds
	probe.InitialDelaySeconds, probe.PeriodSeconds = 0, 1
}

// local changes the operator's Deployment to run on the node of this machine: one pod, of which
// only the operator's container runs, with the built program. A new pod starts after the old one
// has ended, because both use the same ports.
func (m *Manifests) local(d *appsv1.Deployment) (*appsv1.Deployment, error) {
	spec := &d.Spec.Template.Spec
	if len(spec.Containers) == 0 {
		return nil, fmt.Errorf("%s %s has no containers", d.Kind, d.Name)
	}
	at := max(0, slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == program }))
	if spec.Containers[at].Name == "kube-rbac-proxy" && len(spec.Containers) > 1 {
		at = 1
	}
	container := spec.Containers[at]
	for i, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		if i != at {
			m.note("not run: container %s of %s %s", c.Name, d.Kind, d.Name)
		}
	}
	one := int32(1)
	d.APIVersion, d.Kind = "apps/v1", "Deployment"
	d.Spec.Replicas, d.Spec.Strategy = &one, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	spec.NodeName, spec.NodeSelector, spec.Affinity, spec.TopologySpreadConstraints = NodeName, nil, nil, nil
	spec.InitContainers = nil
	command := []string{path.Join("/", program)}
	if len(container.Command) > 1 {
		command = append(command, container.Command[1:]...)
	}
	container.Command, container.Image, container.ImagePullPolicy = command, image, corev1.PullIfNotPresent
	// the working directory of images that set none, to which paths of arguments are relative
	container.WorkingDir = cmp.Or(container.WorkingDir, "/")
	container.Resources = corev1.ResourceRequirements{}
	hasten(container.ReadinessProbe)
	hasten(container.StartupProbe)
	spec.Containers = []corev1.Container{container}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
	})
	return d, nil
}

package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (d *diagnosing) claim(obj *unstructured.Unstructured) error {
	claim, err := convert[corev1.PersistentVolumeClaim](obj)
	if err != nil {
		return err
	}
	switch claim.Status.Phase {
	case corev1.ClaimBound:
		return nil
	case corev1.ClaimLost:
		d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "status.phase",
			Text: fmt.Sprintf("is lost: its volume %s does not exist any longer", claim.Spec.VolumeName)})
		return nil
	}
	return d.unbound(claim)
}

// defaultClass is the annotation of default storage classes.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// unbound explains a claim without a volume.
func (d *diagnosing) unbound(claim *corev1.PersistentVolumeClaim) error {
	f := Finding{Severity: Broken, Object: ref("PersistentVolumeClaim", claim), Source: "spec.storageClassName",
		Since: claim.CreationTimestamp.Time}
	if claim.Spec.VolumeName != "" {
		f.Severity, f.Source = Waiting, "spec.volumeName"
		f.Text, f.Next = "is not bound to its volume "+claim.Spec.VolumeName,
			"the volume must exist, fit, and not be bound to another claim"
		d.add(f)
		return nil
	}
	classes, err := list[storagev1.StorageClass](d)
	if err != nil {
		return err
	}
	name := ""
	if claim.Spec.StorageClassName != nil {
		name = *claim.Spec.StorageClassName
	}
	i := slices.IndexFunc(classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
	switch {
	case claim.Spec.StorageClassName != nil && name == "":
		f.Severity = Waiting
		f.Text, f.Next = `is not bound: with the storage class "" only existing volumes are used, and none fits`,
			"create a PersistentVolume that fits, or set a storage class"
	case name == "":
		f.Text, f.Next = "is not bound: it names no storage class, and the cluster has no default one",
			"make a storage class the default, or name one: a claim's class cannot be changed later"
		if slices.ContainsFunc(classes, func(c *storagev1.StorageClass) bool {
			return c.Annotations[defaultClass] == "true"
		}) {
			f.Text = "is not bound: it was created before the cluster had a default storage class"
		}
	case i < 0 && len(d.denied) == 0:
		f.Text, f.Next = fmt.Sprintf("is not bound: the storage class %s does not exist", name),
			"create the storage class, or create the claim with another one"
	case i >= 0 && classes[i].VolumeBindingMode != nil &&
		*classes[i].VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		claim.Annotations["volume.kubernetes.io/selected-node"] == "":
		f.Severity = Note
		f.Text, f.Next = fmt.Sprintf("waits for the first pod that uses it: the storage class %s binds volumes then",
			name), "create a pod that uses the claim"
	default:
		f.Severity = Waiting
		f.Text, f.Next = fmt.Sprintf("waits for a volume of the storage class %s", name),
			"its provisioner must create one"
		if i >= 0 {
			f.Next = fmt.Sprintf("the provisioner %s must create one", classes[i].Provisioner)
		}
	}
	d.add(f)
	return nil
}

func (d *diagnosing) volume(obj *unstructured.Unstructured) error {
	volume, err := convert[corev1.PersistentVolume](obj)
	if err != nil {
		return err
	}
	switch volume.Status.Phase {
	case corev1.VolumeFailed:
		d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "status",
			Text: "failed: " + sentence(volume.Status.Reason, volume.Status.Message)})
	case corev1.VolumeReleased:
		f := Finding{Severity: Note, Object: refOf(obj), Source: "status.phase",
			Text: fmt.Sprintf("is released, and keeps its data (%s): no other claim can use it",
				volume.Spec.PersistentVolumeReclaimPolicy),
			Next: "remove spec.claimRef to make it available, or delete it"}
		d.add(f)
	}
	return nil
}

func (d *diagnosing) service(obj *unstructured.Unstructured) error {
	service, err := convert[corev1.Service](obj)
	if err != nil {
		return err
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer && len(service.Status.LoadBalancer.Ingress) == 0 {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.loadBalancer",
			Since: service.CreationTimestamp.Time,
			Text:  "has no address of a load balancer", Next: "a controller of load balancers must run in the cluster"})
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || len(service.Spec.Selector) == 0 {
		return nil
	}
	pods, err := d.podsIn(service.Namespace)
	if err != nil {
		return err
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var selected []*corev1.Pod
	ready := 0
	for _, p := range pods {
		if selector.Matches(labels.Set(p.Labels)) && p.Status.Phase != corev1.PodSucceeded &&
			p.Status.Phase != corev1.PodFailed {
			selected = append(selected, p)
			if podReady(p) {
				ready++
			}
		}
	}
	if len(selected) == 0 {
		d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "spec.selector",
			Text: fmt.Sprintf("has no endpoints: no pod has the labels %s", selector),
			Next: "create pods with these labels, or correct the selector"})
		return nil
	}
	if ready == 0 && !service.Spec.PublishNotReadyAddresses {
		worst(selected)
		for _, p := range selected[:min(len(selected), maxOwned)] {
			if err := d.child(corev1.SchemeGroupVersion.WithKind("Pod"), p); err != nil {
				return err
			}
		}
		d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "spec.selector",
			Text: fmt.Sprintf("has no ready endpoints: of %s that it selects, none is ready",
				plural(len(selected), "pod"))})
		return nil
	}
	d.ports(obj, service, selected)
	return nil
}

// ports reports target ports that no container has, by their names.
func (d *diagnosing) ports(obj *unstructured.Unstructured, service *corev1.Service, pods []*corev1.Pod) {
	for _, port := range service.Spec.Ports {
		if port.TargetPort.Type != intstr.String {
			continue
		}
		name := port.TargetPort.StrVal
		has := slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(slices.Concat(p.Spec.Containers, p.Spec.InitContainers),
				func(c corev1.Container) bool {
					return slices.ContainsFunc(c.Ports, func(cp corev1.ContainerPort) bool { return cp.Name == name })
				})
		})
		if !has {
			d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "spec.ports",
				Text: fmt.Sprintf("port %d leads nowhere: no container of its pods has a port named %s", port.Port,
					name),
				Next: "name the container's port, or use its number as targetPort"})
		}
	}
}

func (d *diagnosing) ingress(obj *unstructured.Unstructured) error {
	ingress, err := convert[networkingv1.Ingress](obj)
	if err != nil {
		return err
	}
	services := map[string]bool{}
	if b := ingress.Spec.DefaultBackend; b != nil && b.Service != nil {
		services[b.Service.Name] = true
	}
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, p := range rule.HTTP.Paths {
			if p.Backend.Service != nil {
				services[p.Backend.Service.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		service, found, known, err := get[corev1.Service](d, ingress.Namespace, name)
		if err != nil {
			return err
		}
		if !found && known {
			d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "spec",
				Text: fmt.Sprintf("Service %s does not exist; a rule leads to it", name),
				Next: "create the Service, or correct its name"})
		} else if found {
			if err := d.child(corev1.SchemeGroupVersion.WithKind("Service"), service); err != nil {
				return err
			}
		}
	}
	if class := ingress.Spec.IngressClassName; class != nil {
		_, found, known, err := get[networkingv1.IngressClass](d, "", *class)
		if err != nil {
			return err
		}
		if !found && known {
			d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "spec.ingressClassName",
				Text: fmt.Sprintf("IngressClass %s does not exist", *class),
				Next: "install its ingress controller, or correct the name"})
		}
	}
	if len(ingress.Status.LoadBalancer.Ingress) == 0 && len(d.findings) == 0 {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.loadBalancer",
			Since: ingress.CreationTimestamp.Time,
			Text:  "has no address", Next: "an ingress controller for its class must run"})
	}
	return nil
}

func (d *diagnosing) namespace(obj *unstructured.Unstructured) error {
	namespace, err := convert[corev1.Namespace](obj)
	if err != nil {
		return err
	}
	if namespace.DeletionTimestamp == nil {
		return nil
	}
	at := namespace.DeletionTimestamp.Time
	before := len(d.findings)
	// Objects remain because of their finalizers, so these come first.
	slices.SortStableFunc(namespace.Status.Conditions, func(a, b corev1.NamespaceCondition) int {
		rank := func(c corev1.NamespaceCondition) int {
			if c.Type == corev1.NamespaceContentRemaining {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	for _, c := range namespace.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		f := Finding{Severity: Broken, Object: refOf(obj), Source: "status.conditions", Since: at}
		switch c.Type {
		case corev1.NamespaceFinalizersRemaining:
			f.Text, f.Next = "is being deleted; "+lower(c.Message),
				"the controllers that added these finalizers must remove them"
		case corev1.NamespaceContentRemaining:
			f.Text, f.Next = "is being deleted; "+lower(c.Message), "these objects must be deleted first"
		case corev1.NamespaceDeletionDiscoveryFailure:
			f.Text, f.Next = "is being deleted; not all kinds are known: "+c.Message,
				"repair or delete the APIService that does not answer"
		case corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionGVParsingFailure:
			f.Text = "is being deleted; " + sentence(c.Reason, c.Message)
		default:
			continue
		}
		d.add(f)
	}
	if len(d.findings) == before {
		f := Finding{Severity: Waiting, Object: refOf(obj), Source: "metadata.deletionTimestamp", Since: at,
			Text: "is being deleted"}
		for _, finalizer := range namespace.Spec.Finalizers {
			if finalizer == corev1.FinalizerKubernetes {
				f.Next = "the namespace controller must delete its content"
			} else {
				f.Text += "; waits for the finalizer " + string(finalizer)
			}
		}
		d.add(f)
	}
	return nil
}

// lower begins a sentence in lower case, to follow another part.
func lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

func (d *diagnosing) node(obj *unstructured.Unstructured) error {
	node, err := convert[corev1.Node](obj)
	if err != nil {
		return err
	}
	d.nodeConditions(node)
	if node.Spec.Unschedulable {
		d.add(Finding{Severity: Note, Object: refOf(obj), Source: "spec.unschedulable",
			Text: "is cordoned: it gets no new pods", Next: "kubectl uncordon allows them again"})
	}
	return nil
}

func (d *diagnosing) nodeConditions(node *corev1.Node) {
	for _, c := range node.Status.Conditions {
		f := Finding{Severity: Broken, Object: Ref{Kind: "Node", Name: node.Name}, Source: "status.conditions",
			Since: c.LastTransitionTime.Time}
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			f.Text, f.Next = "does not report: "+sentence(c.Reason, c.Message),
				"the machine must run and reach the API server"
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
			f.Text = "is not ready: " + sentence(c.Reason, c.Message)
		case c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue:
			f.Text = fmt.Sprintf("has %s: %s", c.Type, sentence(c.Reason, c.Message))
		default:
			continue
		}
		d.add(f)
	}
}

func (d *diagnosing) quota(obj *unstructured.Unstructured) error {
	quota, err := convert[corev1.ResourceQuota](obj)
	if err != nil {
		return err
	}
	var full []string
	for name, hard := range quota.Status.Hard {
		if used, ok := quota.Status.Used[name]; ok && used.Cmp(hard) >= 0 {
			full = append(full, fmt.Sprintf("%s (%s of %s)", name, used.String(), hard.String()))
		}
	}
	slices.Sort(full)
	if len(full) > 0 {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.used",
			Text: "is used up: " + strings.Join(full, ", "), Next: "raise spec.hard, or delete what it counts"})
	}
	return nil
}

func (d *diagnosing) signingRequest(obj *unstructured.Unstructured) error {
	csr, err := convert[certificatesv1.CertificateSigningRequest](obj)
	if err != nil {
		return err
	}
	approved := false
	for _, c := range csr.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "status.conditions",
				Text: fmt.Sprintf("%s: %s", c.Type, sentence(c.Reason, c.Message)), Since: c.LastTransitionTime.Time})
			return nil
		}
	}
	switch {
	case !approved:
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.conditions", Text: "waits for an approval",
			Since: csr.CreationTimestamp.Time, Next: "kubectl certificate approve " + csr.Name})
	case len(csr.Status.Certificate) == 0:
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.certificate",
			Text: "is approved, but has no certificate", Next: "the signer " + csr.Spec.SignerName + " must issue it"})
	}
	return nil
}

package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// maxLogLines is how many lines of a container's log a finding has.
const maxLogLines = 5

func (d *diagnosing) pod(obj *unstructured.Unstructured) error {
	pod, err := convert[corev1.Pod](obj)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		d.podDeletion(pod)
		return nil
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return nil
	case corev1.PodFailed:
		d.failedPod(pod)
		return nil
	}
	if pod.Spec.NodeName == "" {
		return d.unscheduled(pod)
	}
	before := len(d.findings)
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			d.container(pod, &list[i])
		}
	}
	if err := d.references(pod); err != nil {
		return err
	}
	if len(d.findings) > before || podReady(pod) {
		return nil
	}
	return d.unready(pod)
}

func podReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func ref(kind string, obj client.Object) Ref { return Ref{kind, obj.GetNamespace(), obj.GetName()} }

func (d *diagnosing) podDeletion(pod *corev1.Pod) {
	at := pod.DeletionTimestamp.Time // the end of the grace period
	if len(pod.Finalizers) > 0 || d.Now().Sub(at) < 0 {
		return
	}
	d.add(Finding{Severity: Broken, Object: ref("Pod", pod), Source: "metadata.deletionTimestamp", Since: at,
		Text: fmt.Sprintf("is being deleted; its grace period is over, but node %s has not confirmed that its containers have ended", pod.Spec.NodeName),
		Next: "the kubelet of the node must report it; if the node is gone, delete the node or force the deletion of the pod"})
}

func (d *diagnosing) failedPod(pod *corev1.Pod) {
	if pod.Status.Reason != "" { // such as Evicted, NodeAffinity
		d.add(Finding{Severity: Broken, Object: ref("Pod", pod), Source: "status.reason",
			Text: "failed: " + sentence(pod.Status.Reason, pod.Status.Message)})
		return
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				d.ended(pod, &c, t, false, "failed: ")
			}
		}
	}
}

// unscheduled explains a pod without a node.
func (d *diagnosing) unscheduled(pod *corev1.Pod) error {
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		var names []string
		for _, g := range gates {
			names = append(names, g.Name)
		}
		d.add(Finding{Severity: Waiting, Object: ref("Pod", pod), Source: "spec.schedulingGates",
			Since: pod.CreationTimestamp.Time,
			Text:  "is not scheduled: it has the scheduling gates " + strings.Join(names, ", "),
			Next:  "the controllers that added the gates must remove them"})
		return nil
	}
	c := podCondition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		if d.Now().Sub(pod.CreationTimestamp.Time) > patience {
			d.add(Finding{Severity: Broken, Object: ref("Pod", pod), Source: "status.conditions",
				Since: pod.CreationTimestamp.Time,
				Text:  fmt.Sprintf("no scheduler has considered it (schedulerName: %s)", pod.Spec.SchedulerName),
				Next:  "a scheduler with this name must run"})
		}
		return nil
	}
	if err := d.claimsOf(pod); err != nil {
		return err
	}
	f := Finding{Severity: Broken, Object: ref("Pod", pod), Source: "status.conditions",
		Since: c.LastTransitionTime.Time,
		Text:  "cannot be scheduled: " + c.Message,
		Next:  "a node must fit: free or add resources, or change the pod's requests, selectors, affinity or tolerations"}
	d.add(f)
	return nil
}

// claimsOf explains the volume claims of a pod that are not bound, and names missing ones.
func (d *diagnosing) claimsOf(pod *corev1.Pod) error {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim, found, known, err := get[corev1.PersistentVolumeClaim](d, pod.Namespace, name)
		if err != nil {
			return err
		}
		switch {
		case !found && known:
			d.missing(pod, "PersistentVolumeClaim", name, "volume "+v.Name)
		case found && claim.Status.Phase != corev1.ClaimBound:
			if err := d.unbound(claim); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *diagnosing) missing(pod *corev1.Pod, kind, name, user string) {
	d.add(Finding{Severity: Broken, Object: ref("Pod", pod), Source: "spec", Since: pod.CreationTimestamp.Time,
		Text: fmt.Sprintf("%s %s does not exist; %s needs it", kind, name, user),
		Next: "create the " + kind + ", or correct its name"})
}

// rootCA is the ConfigMap that a controller creates in each namespace, for the token volumes of
// pods.
const rootCA = "kube-root-ca.crt"

// references names the Secrets, ConfigMaps and claims that a pod needs and that do not exist.
func (d *diagnosing) references(pod *corev1.Pod) error {
	if podReady(pod) {
		return nil
	}
	type needed struct{ kind, name, user string }
	var all []needed
	need := func(kind, name, user string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			all = append(all, needed{kind, name, user})
		}
	}
	for _, v := range pod.Spec.Volumes {
		user := "volume " + v.Name
		switch {
		case v.Secret != nil:
			need("Secret", v.Secret.SecretName, user, v.Secret.Optional)
		case v.ConfigMap != nil:
			need("ConfigMap", v.ConfigMap.Name, user, v.ConfigMap.Optional)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					need("Secret", s.Secret.Name, user, s.Secret.Optional)
				}
				if s.ConfigMap != nil {
					need("ConfigMap", s.ConfigMap.Name, user, s.ConfigMap.Optional)
				}
			}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		user := "container " + c.Name
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				need("Secret", e.SecretRef.Name, user, e.SecretRef.Optional)
			}
			if e.ConfigMapRef != nil {
				need("ConfigMap", e.ConfigMapRef.Name, user, e.ConfigMapRef.Optional)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				need("Secret", e.ValueFrom.SecretKeyRef.Name, user, e.ValueFrom.SecretKeyRef.Optional)
			}
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				need("ConfigMap", e.ValueFrom.ConfigMapKeyRef.Name, user, e.ValueFrom.ConfigMapKeyRef.Optional)
			}
		}
	}
	for i, n := range all {
		if slices.ContainsFunc(all[:i], func(o needed) bool { return o.kind == n.kind && o.name == n.name }) ||
			n.name == rootCA && d.Now().Sub(pod.CreationTimestamp.Time) < patience {
			continue
		}
		var found, known bool
		var err error
		if n.kind == "Secret" {
			_, found, known, err = get[corev1.Secret](d, pod.Namespace, n.name)
		} else {
			_, found, known, err = get[corev1.ConfigMap](d, pod.Namespace, n.name)
		}
		if err != nil {
			return err
		}
		if !found && known {
			d.missing(pod, n.kind, n.name, n.user)
		}
	}
	return d.claimsOf(pod)
}

// container explains a container that does not run.
func (d *diagnosing) container(pod *corev1.Pod, c *corev1.ContainerStatus) {
	switch w := c.State.Waiting; {
	case w != nil && w.Reason == "CrashLoopBackOff":
		if t := c.LastTerminationState.Terminated; t != nil {
			d.ended(pod, c, t, true, "crashes: ")
			return
		}
		d.waiting(pod, c, Broken)
	case w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff" || w.Reason == "InvalidImageName" ||
		strings.HasSuffix(w.Reason, "Error")):
		d.waiting(pod, c, Broken)
	case w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating":
		d.waiting(pod, c, Waiting)
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		d.ended(pod, c, c.State.Terminated, false, "")
	case c.State.Running != nil && c.RestartCount > 0 && c.LastTerminationState.Terminated != nil &&
		d.Now().Sub(c.State.Running.StartedAt.Time) < time.Hour:
		d.ended(pod, c, c.LastTerminationState.Terminated, true, "runs again, but restarted recently: ")
	}
}

func (d *diagnosing) waiting(pod *corev1.Pod, c *corev1.ContainerStatus, severity Severity) {
	f := Finding{Severity: severity, Object: ref("Pod", pod), Source: "status.containerStatuses",
		Since: pod.CreationTimestamp.Time,
		Text:  fmt.Sprintf("container %s waits: %s", c.Name, sentence(c.State.Waiting.Reason, c.State.Waiting.Message))}
	switch c.State.Waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName":
		f.Text = fmt.Sprintf("container %s: image %s cannot be pulled: %s", c.Name, c.Image,
			sentence(c.State.Waiting.Reason, c.State.Waiting.Message))
		f.Next = "correct the name or tag of the image, or give the pod an imagePullSecret that may read it"
	case "CreateContainerConfigError":
		f.Next = "create what the message names, or correct the pod"
	}
	d.add(f)
}

// ended reports how a container ended, with the end of its log.
func (d *diagnosing) ended(pod *corev1.Pod, c *corev1.ContainerStatus, t *corev1.ContainerStateTerminated,
	previous bool, prefix string) {
	f := Finding{Severity: Broken, Object: ref("Pod", pod), Source: "status.containerStatuses",
		Since: t.FinishedAt.Time}
	how := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		how = fmt.Sprintf("signal %d", t.Signal)
	}
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		how = t.Reason + ", " + how
	}
	f.Text = fmt.Sprintf("%scontainer %s ended with %s", prefix, c.Name, how)
	if c.RestartCount > 0 {
		f.Text += fmt.Sprintf(", restarted %d times", c.RestartCount)
	}
	if t.Message != "" {
		f.Details = lastLines(strings.Split(strings.TrimSpace(t.Message), "\n"))
		f.Source += ", termination message"
	} else if !d.has(f) { // of equal findings, the first one keeps its details
		if lines := d.log(pod, c.Name, previous); len(lines) > 0 {
			f.Details = lines
			f.Source += ", log"
		}
	}
	switch {
	case t.Reason == "OOMKilled":
		f.Next = "raise the memory limit of the container, or make it use less"
	case t.ExitCode == 127 || t.Reason == "ContainerCannotRun" || t.Reason == "StartError":
		f.Next = "correct the command: it cannot be started in this image"
	}
	if strings.HasPrefix(prefix, "runs") {
		f.Severity = Note
	}
	d.add(f)
}

func (d *diagnosing) log(pod *corev1.Pod, container string, previous bool) []string {
	if d.Logs == nil {
		return nil
	}
	lines, err := d.Logs(d.ctx, client.KeyOf(pod), container, previous)
	if err != nil {
		return nil // the node may be gone; the finding is right without it
	}
	return lastLines(lines)
}

func lastLines(lines []string) []string { return lines[max(0, len(lines)-maxLogLines):] }

// unready explains a pod whose containers run, or begin to.
func (d *diagnosing) unready(pod *corev1.Pod) error {
	ready := podCondition(pod, corev1.PodReady)
	since := pod.CreationTimestamp.Time
	if ready != nil {
		since = ready.LastTransitionTime.Time
	}
	f := Finding{Severity: Waiting, Object: ref("Pod", pod), Source: "status.conditions", Since: since}
	var unready, creating []string
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Running != nil && !c.Ready:
			unready = append(unready, c.Name)
		case c.State.Running == nil:
			creating = append(creating, c.Name)
		}
	}
	switch {
	case len(unready) > 0:
		f.Text = fmt.Sprintf("container %s runs but is not ready", strings.Join(unready, ", "))
		f.Next = "its readiness probe must succeed"
	case len(creating) > 0:
		f.Text = fmt.Sprintf("container %s is being created", strings.Join(creating, ", "))
		f.Next = "the kubelet mounts volumes and pulls images first; Events say what it waits for"
	case ready != nil && ready.Reason != "":
		f.Text = "is not ready: " + sentence(ready.Reason, ready.Message)
		f.Next = "the readiness gates of the pod must become true"
	default:
		f.Text = fmt.Sprintf("node %s has not started it yet", pod.Spec.NodeName)
		f.Next = "the kubelet of the node must run"
	}
	if d.Now().Sub(since) < patience {
		f.Severity = Note
	}
	d.add(f)
	return d.nodeOf(pod)
}

// nodeOf explains a pod's node, if that is the reason.
func (d *diagnosing) nodeOf(pod *corev1.Pod) error {
	node, found, known, err := get[corev1.Node](d, "", pod.Spec.NodeName)
	switch {
	case err != nil:
		return err
	case !found && known:
		d.add(Finding{Severity: Broken, Object: Ref{Kind: "Node", Name: pod.Spec.NodeName}, Source: "spec.nodeName",
			Text: "does not exist, but pods are assigned to it",
			Next: "delete these pods: their controllers create others"})
	case found:
		d.nodeConditions(node)
	}
	return nil
}

// worst sorts pods so that those with problems come first, the newest of them first.
func worst(pods []*corev1.Pod) {
	rank := func(p *corev1.Pod) int {
		if podReady(p) || p.Status.Phase == corev1.PodSucceeded {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(rank(a)-rank(b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
}

//go:build unix

package process

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// identity is the user and the groups that the processes of a container see as their own, from the
// security contexts of the pod and the container. On the machine, all containers of a pod have the
// pod's own user (see userOf): a user namespace translates between the two.
//
//	in the container            on the machine
//	runAsUser            ◀────▶ the pod's user
//	runAsGroup           ◀────▶ the group with the number of the pod's user
//	fsGroup and others   ◀────▶ groups of the pod, if the agent runs as root
type identity struct {
	User, Group uint32
	Groups      []group
}

// group is a supplementary group: its number in containers and on the machine.
type group struct{ Inside, Outside uint32 }

// errRoot is the error of a container that must not run as root. A kubelet has the same text.
var errRoot = errors.New("container's runAsUser breaks non-root policy")

// identityOf returns the identity that the security contexts of a container ask for; nil if they
// ask for none.
func identityOf(pod *corev1.Pod, c *corev1.Container) (*identity, error) {
	var user, primary, fsGroup *int64
	var nonRoot *bool
	var others []int64
	if p := pod.Spec.SecurityContext; p != nil {
		user, primary, fsGroup, nonRoot, others = p.RunAsUser, p.RunAsGroup, p.FSGroup, p.RunAsNonRoot,
			p.SupplementalGroups
	}
	if sc := c.SecurityContext; sc != nil {
		user, primary, nonRoot = cmp.Or(sc.RunAsUser, user), cmp.Or(sc.RunAsGroup, primary),
			cmp.Or(sc.RunAsNonRoot, nonRoot)
	}
	if nonRoot != nil && *nonRoot && user != nil && *user == 0 {
		return nil, fmt.Errorf("%w (pod: %q, container: %s)", errRoot, pod.Name, c.Name)
	}
	if user == nil && primary == nil && fsGroup == nil && len(others) == 0 {
		return nil, nil
	}
	outside := userOf(pod)
	id := &identity{User: outside, Group: outside}
	if user != nil {
		id.User, id.Group = uint32(*user), 0 // the group of a user that an image does not list
	}
	if primary != nil {
		id.Group = uint32(*primary)
	}
	if fsGroup != nil {
		others = append([]int64{*fsGroup}, others...)
	}
	for _, number := range others {
		g := group{uint32(number), groupOf(pod, number)}
		taken := slices.ContainsFunc(id.Groups, func(o group) bool {
			return o.Inside == g.Inside || o.Outside == g.Outside
		})
		if g.Inside != id.Group && g.Outside != outside && !taken {
			id.Groups = append(id.Groups, g)
		}
	}
	return id, nil
}

// groupOf returns the group on the machine that corresponds to a supplementary group of a pod.
func groupOf(pod *corev1.Pod, number int64) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", pod.UID, number)
	group := firstUser + h.Sum32()%userCount
	if !mapped(group) {
		return nobody
	}
	return group
}

// volumeGroup returns the group that owns the files of a pod's volumes on the machine. set reports
// whether the pod chooses it by fsGroup.
func volumeGroup(pod *corev1.Pod) (_ uint32, set bool) {
	p := pod.Spec.SecurityContext
	switch {
	case p == nil || p.FSGroup == nil:
		return userOf(pod), false
	case p.RunAsGroup != nil && *p.RunAsGroup == *p.FSGroup, p.RunAsGroup == nil && p.RunAsUser != nil &&
		*p.FSGroup == 0:
		return userOf(pod), true // the primary group
	}
	return groupOf(pod, *p.FSGroup), true
}

// readOnlyRoot reports whether a container must not write outside of its volumes.
func readOnlyRoot(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.ReadOnlyRootFilesystem != nil &&
		*c.SecurityContext.ReadOnlyRootFilesystem
}

// possible returns id, or nil if this system can't give it to processes. It records an event about
// the fields of the security contexts that therefore have no effect.
func (s *sandbox) possible(spec node.ContainerSpec, id *identity) *identity {
	var fields []string
	if id != nil && !s.runtime.translates() {
		id, fields = nil, append(fields, "runAsUser, runAsGroup, fsGroup and supplementalGroups need user namespaces")
	}
	if readOnlyRoot(spec.Container) && s.runtime.confinement != ConfinedRoot {
		fields = append(fields, "readOnlyRootFilesystem needs separate root directories of pods")
	}
	if len(fields) > 0 && spec.Event != nil && spec.Attempt == 0 {
		spec.Event(corev1.EventTypeWarning, "SecurityContextIgnored",
			fmt.Sprintf("These fields have no effect, because this server may not create what they need: %s",
				strings.Join(fields, "; ")))
	}
	return id
}

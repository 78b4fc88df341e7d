package apitest_test

import (
	"flag"
	"fmt"
	gomaps "maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

var update = flag.Bool("update", false, "update policy.txt")

var resources = []string{
	"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
}

// policy.txt has what the API stores for Kubernetes' own policy; -update writes it.
func TestPolicyText(t *testing.T) {
	posted := stored(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	aggregated := stored(t, controlplane.Config{})
	var text strings.Builder
	text.WriteString("# Made by go generate from Kubernetes' bootstrap policy; policy.go says how it is read.\n")
	for _, resource := range resources {
		for _, key := range slices.SortedFunc(gomaps.Keys(posted), func(a, b store.Key) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		}) {
			if key.Resource != resource {
				continue
			}
			prefix := fmt.Sprintf("%s %s %s ", key.Resource, orDash(key.Namespace), key.Name)
			text.WriteString(prefix + posted[key] + "\n")
			if aggregated[key] != posted[key] {
				text.WriteString(prefix + aggregated[key] + "\n")
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("../bootstrappolicy/policy.txt", []byte(text.String()), 0o666))
		return
	}
	if have, err := os.ReadFile("../bootstrappolicy/policy.txt"); err != nil || string(have) != text.String() {
		t.Error("policy.txt is out of date: run go generate", err)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// marked has the parts that differ between control planes.
var marked = []struct {
	pattern *regexp.Regexp
	mark    string
}{
	{regexp.MustCompile(`"uid":"[0-9a-f-]{36}"`), `"uid":"<uid>"`},
	{regexp.MustCompile(`"creationTimestamp":"[0-9TZ:-]{20}"`), `"creationTimestamp":"<time>"`},
	{regexp.MustCompile(`"lastTransitionTime":"[0-9TZ:-]{20}"`), `"lastTransitionTime":"<time>"`},
	{regexp.MustCompile(`"time":"[0-9TZ:-]{20}"`), `"time":"<time>"`},
	{regexp.MustCompile(`"resourceVersion":"\d+"`), `"resourceVersion":"<revision>"`},
}

// stored creates Kubernetes' policy through the API of a control plane and returns the stored
// objects.
func stored(t *testing.T, cfg controlplane.Config) map[store.Key]string {
	t.Helper()
	all := map[store.Key]string{}
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(t.Context(), cfg)
		require.NoError(t, err)
		defer plane.Stop()
		synctest.Wait()
		sn := plane.Store().Snapshot()
		for _, resource := range resources {
			for obj := range sn.Scan(resource, "", store.Key{}) {
				_, err = plane.Store().Commit(t.Context(),
					store.Op{Key: obj.Key, Expect: store.AnyRevision})
				require.NoError(t, err)
			}
		}
		create(t, plane)
		// Without its role, the aggregation controller waits before it tries again.
		time.Sleep(time.Hour)
		synctest.Wait()
		sn = plane.Store().Snapshot()
		for _, resource := range resources {
			for obj := range sn.Scan(resource, "", store.Key{}) {
				data := string(obj.Data)
				for _, m := range marked {
					data = m.pattern.ReplaceAllString(data, m.mark)
				}
				all[obj.Key] = data
			}
		}
	})
	return all
}

// create posts the policy like kube-apiserver's post-start hook.
func create(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	config := plane.RESTConfig()
	config.UserAgent = "kube-apiserver/" + controlplane.KubernetesVersion
	client := kubernetes.NewForConfigOrDie(config).RbacV1()
	check := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	for _, o := range slices.Concat(upstream.ClusterRoles(), upstream.ControllerRoles()) {
		check(client.ClusterRoles().Create(t.Context(), &o, metav1.CreateOptions{}))
	}
	for _, o := range slices.Concat(upstream.ClusterRoleBindings(), upstream.ControllerRoleBindings()) {
		check(client.ClusterRoleBindings().Create(t.Context(), &o, metav1.CreateOptions{}))
	}
	for namespace, list := range upstream.NamespaceRoles() {
		for _, o := range list {
			check(client.Roles(namespace).Create(t.Context(), &o, metav1.CreateOptions{}))
		}
	}
	for namespace, list := range upstream.NamespaceRoleBindings() {
		for _, o := range list {
			check(client.RoleBindings(namespace).Create(t.Context(), &o, metav1.CreateOptions{}))
		}
	}
	createFlows(t, plane)
}

// createFlows posts the priority and fairness objects like kube-apiserver's post-start hook.
func createFlows(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(plane.RESTConfig()).FlowcontrolV1()
	opts := metav1.CreateOptions{FieldManager: "api-priority-and-fairness-config-producer-v1"}
	for _, o := range slices.Concat(bootstrap.SuggestedPriorityLevelConfigurations,
		bootstrap.MandatoryPriorityLevelConfigurations) {
		_, err := client.PriorityLevelConfigurations().Create(t.Context(), o, opts)
		require.NoError(t, err)
	}
	for _, o := range slices.Concat(bootstrap.SuggestedFlowSchemas, bootstrap.MandatoryFlowSchemas) {
		_, err := client.FlowSchemas().Create(t.Context(), o, opts)
		require.NoError(t, err)
	}
}

package flowcontrol_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/internal/require"
)

// kubernetes is Kubernetes' own controller with the objects that exist from the start, and others.
func kubernetes(t testing.TB, more ...runtime.Object) upstream.Interface {
	klog.LogToStderr(false) // it logs each request that matches no FlowSchema
	klog.SetOutput(io.Discard)
	var objects []runtime.Object
	for _, list := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations,
		bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, pl := range list {
			objects = append(objects, pl.DeepCopy())
		}
	}
	for _, list := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, fs := range list {
			objects = append(objects, fs.DeepCopy())
		}
	}
	client := fake.NewClientset(append(objects, more...)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	controller := upstream.New(factory, client.FlowcontrolV1(), 600)
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = controller.Run(ctx.Done()) }()
	t.Cleanup(func() { cancel(); <-ended; factory.Shutdown() })
	return controller
}

// kubernetesSchemaOf returns the name of the FlowSchema that Kubernetes selects for a request.
func kubernetesSchemaOf(c upstream.Interface, info *request.RequestInfo, u user.Info) (schema string) {
	c.Handle(context.Background(), upstream.RequestDigest{RequestInfo: info, User: u},
		func(fs *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, _ string) {
			schema = fs.Name
		},
		func() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} }, func(bool) {}, func() {})
	return schema
}

// Requests are classified as in Kubernetes.
func TestClassificationMatchesKubernetes(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	some := func(all string, of ...string) []string {
		if random.IntN(3) == 0 {
			return []string{all}
		}
		return slices.Compact(slices.Sorted(slices.Values([]string{pick(of...), pick(of...)})))
	}
	users := []string{"ann", "bob", "system:serviceaccount:x:y", "system:serviceaccount:kube-system:z",
		"system:serviceaccount:x", "system:kube-scheduler", "system:anonymous"}
	groups := []string{user.AllAuthenticated, user.AllUnauthenticated, user.NodesGroup, user.SystemPrivilegedGroup,
		"system:serviceaccounts", "developers"}
	verbs, resources := []string{"get", "list", "create", "update"},
		[]string{"pods", "leases", "nodes", "pods/status", "nodes/status"}
	paths := []string{"/healthz", "/healthz/", "/healthz/etcd", "/livez", "/x", "/xy", "/x/y", "/", "/x/y/z"}
	st := newStore(t)
	defer st.Close()
	var more []runtime.Object
	for i := range 30 {
		fs := bootstrap.SuggestedFlowSchemaGlobalDefault.DeepCopy()
		fs.Name, fs.Spec.MatchingPrecedence = fmt.Sprint("random-", i), int32(3+random.IntN(10000))
		fs.Spec.PriorityLevelConfiguration.Name = pick("system", "workload-low", "missing", "exempt")
		rule := &fs.Spec.Rules[0]
		rule.Subjects = nil
		for range 1 + random.IntN(2) {
			s := flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKind(pick("User", "Group", "ServiceAccount"))}
			switch s.Kind {
			case flowcontrolv1.SubjectKindUser:
				s.User = &flowcontrolv1.UserSubject{Name: pick(append(users, "*")...)}
			case flowcontrolv1.SubjectKindGroup:
				s.Group = &flowcontrolv1.GroupSubject{Name: pick(append(groups, "*")...)}
			default:
				s.ServiceAccount = &flowcontrolv1.ServiceAccountSubject{Namespace: pick("x", "kube-system"),
					Name: pick("y", "z", "*")}
			}
			rule.Subjects = append(rule.Subjects, s)
		}
		rule.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{
			Verbs: some("*", verbs...), APIGroups: some("*", "", "coordination.k8s.io"),
			Resources:    some("*", resources...),
			ClusterScope: random.IntN(2) == 0, Namespaces: some("*", "x", "kube-system"),
		}}
		rule.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{
			{Verbs: some("*", verbs...), NonResourceURLs: some("*", "/x", "/x/*", "/healthz", "/livez/*")}}
		put(t, st, schemas, fs, false)
		more = append(more, fs)
	}
	theirs, ours := kubernetes(t, more...), flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
	for info, u := (&request.RequestInfo{Path: "/x", Verb: "get"}),
		(&user.DefaultInfo{Name: "nobody", Groups: []string{user.AllAuthenticated}}); kubernetesSchemaOf(theirs, info,
		u) == "catch-all"; {
		// their controller has not read the objects yet
	}
	seen := map[string]bool{}
	for range 20_000 {
		u := &user.DefaultInfo{Name: pick(users...)}
		for range random.IntN(4) {
			u.Groups = append(u.Groups, pick(groups...))
		}
		info := &request.RequestInfo{Verb: pick(verbs...), Path: pick(paths...)}
		if random.IntN(3) > 0 {
			info.IsResourceRequest, info.APIGroup, info.Resource = true, pick("", "coordination.k8s.io"),
				pick("pods", "leases", "nodes")
			info.Subresource, info.Namespace = pick("", "", "status"), pick("", "x", "kube-system")
		}
		want, got := kubernetesSchemaOf(theirs, info, u), ours.SchemaOf(info, u)
		require.Equalf(t, got, want, "seed %d: request %+v of user %+v has the FlowSchema", seed, info, u)
		seen[got] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d FlowSchemas were matched", len(seen))
	}
}

// BenchmarkKubernetes measures a request with Kubernetes' own controller when no request waits.
func BenchmarkKubernetes(b *testing.B) {
	c := kubernetes(b)
	_, info, u := ask(context.Background(), "ann", "get", "developers")
	b.ReportAllocs()
	for b.Loop() {
		kubernetesSchemaOf(c, info, u)
	}
}

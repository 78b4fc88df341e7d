package console_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/test/child"
)

// consoleMemory bounds the memory of kelson console with 10,000 objects and 17,000 Events, in
// bytes.
const consoleMemory = 200 << 20

// make screens takes screenshots of the main views of four clusters, in the width of a screen and
// of a phone, and measures the memory of kelson console.
func TestScreens(t *testing.T) {
	if os.Getenv("KELSON_SCREENSHOTS") == "" || os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: KELSON_SCREENSHOTS and KELSON are not set; make screens sets them")
	}
	chromium(t)
	t.Run("empty", func(t *testing.T) {
		s := screenOf(t, nil)
		s.b.shows("Everything has settled.")
		s.views("empty", "namespaces/-/default")
	})
	t.Run("problems", func(t *testing.T) {
		s := screenOf(t, eightProblems)
		s.b.until(`document.querySelectorAll('.item').length >= 8`)
		s.b.until(`[...document.querySelectorAll('.logline')].some((line) =>
			line.innerText === 'cannot open /etc/app.yaml')`)
		s.views("problems", "deployments.apps/default/crashes")
	})
	t.Run("large", func(t *testing.T) {
		s := screenOf(t, tenThousand)
		s.b.until(`/^1\d,\d{3} objects$/.test(document.querySelector('.head .quiet')?.textContent)`)
		s.b.until(`document.querySelector('.items')?.innerText.includes('20 objects like')`)
		s.views("large", "deployments.apps/shop-1/too-large-0")
		if runtime.GOOS != "linux" {
			return
		}
		if used := s.memory(); used > consoleMemory {
			t.Errorf("the console uses %d MiB", used>>20)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		s := screenOf(t, eightProblems)
		s.b.until(`document.querySelectorAll('.item').length >= 8`)
		s.stopServer()
		s.b.until(`document.querySelector('.problem.old') !== null`)
		s.shot("stopped-now") // a reload would have nothing to show
		s.b.goTo("/")
		s.b.until(`document.querySelector('.problem.old') !== null`)
		s.views("stopped-reloaded", "deployments.apps/default/crashes")
	})
}

// screen is a page of kelson console, which shows a kelson serve. Both are processes.
type screen struct {
	t          *testing.T
	b          *tab
	console    *exec.Cmd
	stopServer func()
}

// screenOf starts the processes, after fill has created objects.
func screenOf(t *testing.T, fill func(t *testing.T, c client.Client)) *screen {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	_, server, _ := printed(t, `ready in (\S+)`, "serve", "--in-memory", "--nodes=4", "--secure-port=0", "--kubeconfig",
		kubeconfig)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	c, err := client.New(client.Config{REST: config, FieldOwner: "kubectl-create"})
	require.NoError(t, err)
	if fill != nil {
		fill(t, c)
	}
	url, _, process := printed(t, `console: +(http://\S+)`, "console", "--kubeconfig", kubeconfig)
	return &screen{t, openURL(t, url), process, server}
}

// printed starts kelson and returns the group of a pattern in its output. It stops kelson at the
// end of the test, or when stop is called.
func printed(t *testing.T, pattern string, args ...string) (found string, stop func(), cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(os.Getenv("KELSON"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return m[1], stop, cmd
		}
		require.NoErrorf(t, err, "kelson %v", args)
	}
}

// views takes screenshots of the main views.
func (s *screen) views(name, object string) {
	s.t.Helper()
	for view, path := range map[string]string{"now": "/", "why": "/object/" + object, "map": "/map",
		"history": "/history", "pods": "/objects/pods"} {
		s.b.goTo(path)
		s.b.until(`document.querySelector('main h1') && !document.querySelector('.loading')`)
		s.shot(name + "-" + view)
	}
}

// shot takes a screenshot in two widths.
func (s *screen) shot(name string) {
	s.t.Helper()
	for _, size := range [][2]int64{{1440, 900}, {390, 844}} {
		s.b.do(chromedp.EmulateViewport(size[0], size[1]))
		s.b.until(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		s.b.shot(fmt.Sprintf("screen-%s-%d", name, size[0]))
	}
}

// memory returns the maximum of the console's own resident memory, in bytes. The pages of the
// program are not among it: the kernel maps as many as it has read already, up to most of the file,
// and drops them when memory is short.
func (s *screen) memory() (resident int64) {
	s.t.Helper()
	used, err := child.UsageOf(s.console.Process.Pid)
	require.NoError(s.t, err)
	program := used.Resident - used.Anonymous
	s.t.Logf("the console uses %d MiB, of which %d are pages of the program, and at most %d MiB", used.Resident>>20,
		program>>20, used.Peak>>20)
	return used.Peak - program
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		assert.NoError(t, c.Create(t.Context(), o))
	}
}

// running returns a Deployment of simulated pods in a namespace.
func running(namespace, name string, replicas int32, command string) *appsv1.Deployment {
	d := deployment(name, replicas)
	d.Namespace = namespace
	d.Spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", command}
	return d
}

// eightProblems creates eight objects with different problems.
func eightProblems(t *testing.T, c client.Client) {
	tooLarge := running("default", "too-large", 20, "sleep 3600")
	tooLarge.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000")}
	missing := running("default", "no-volume", 1, "sleep 3600")
	missing.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "absent"}}}}
	create(t, c, running("default", "serves", 2, "sleep 3600"), tooLarge, missing,
		running("default", "crashes", 2, "echo cannot open /etc/app.yaml; sleep 1; exit 3"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "small"}})
	create(t, c,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: "held",
			Finalizers: []string{"example.com/cleanup"}}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "small", Name: "few"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("absent"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "migrate"},
			Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{
						{Name: "migrate", Image: "busybox:1.37",
							Command: []string{"sh", "-c", "echo table is locked; exit 1"}}}}}}},
		running("small", "many", 5, "sleep 3600"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alone"},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"},
				Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37"}}}})
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
	assert.NoError(t, c.Delete(t.Context(), leaving))
}

// tenThousand creates 10,000 objects and 17,000 Events. Eight Deployments of them have 20 pods that
// no node can run.
func tenThousand(t *testing.T, c client.Client) {
	const namespaces, configs, events = 20, 8000, 17000
	for n := range namespaces {
		create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("shop-%d", n)}})
	}
	for i := range 8 {
		d := running("shop-1", fmt.Sprintf("too-large-%d", i), 20, "sleep 3600")
		d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1000")}
		create(t, c, d)
	}
	for i := range 80 {
		create(t, c, running(fmt.Sprintf("shop-%d", i%namespaces), fmt.Sprintf("app-%d", i), 20, "sleep 3600"))
	}
	var parts sync.WaitGroup
	for part := range 16 {
		parts.Go(func() {
			for i := part; i < configs; i += 16 {
				create(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("shop-%d",
					i%namespaces), Name: fmt.Sprintf("settings-%d", i),
					Labels: map[string]string{"app": "app"}},
					Data: map[string]string{"text": strings.Repeat("x", 500)}})
			}
			now := metav1.NewTime(time.Now())
			for i := part; i < events; i += 16 {
				namespace := fmt.Sprintf("shop-%d", i%namespaces)
				create(t, c, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
					Name: fmt.Sprintf("e-%d", i)}, Type: "Normal", Reason: "Recorded",
					Message: "the settings have been read by " + strconv.Itoa(i), FirstTimestamp: now,
					LastTimestamp: now, Count: 1,
					InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", APIVersion: "v1", Namespace: namespace,
						Name: fmt.Sprintf("settings-%d", i%configs)}})
			}
		})
	}
	parts.Wait()
	var pods corev1.PodList
	waits := time.Now().Add(3 * time.Minute)
	for len(pods.Items) < 88*20 && time.Now().Before(waits) {
		require.NoError(t, c.List(t.Context(), &pods))
		time.Sleep(200 * time.Millisecond)
	}
}

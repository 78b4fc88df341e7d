package nodes_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The cluster of TestSeveralServers is on one network. Each server has an address. The test reaches
// them through a balancer.
const (
	lan       = "10.98.9."
	balancer  = lan + "10:6443"
	webOfMany = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: busybox:test
        command: [sh, -c, "echo served by $HOSTNAME > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]
        readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
`
)

// The test kills each of three servers, of three members of etcd, and of two nodes. Pods continue,
// other servers take over the controllers, and no acknowledged write is lost.
func TestSeveralServers(t *testing.T) {
	etcd := os.Getenv("KELSON_ETCD")
	if etcd == "" {
		t.Skip("KELSON_ETCD names no program: run make nodes-ha")
	}
	kelson, node := programs(t)
	if !isolated(t) {
		return
	}
	ha := newHACluster(t, kelson, node, etcd)
	ha.startAll()
	c := ha.cluster
	ha.write()

	for _, p := range slices.Concat(ha.members, ha.servers) {
		failed := ha.failures()
		p.kill()
		ha.works(p.name + " was killed")
		if n := ha.failures() - failed; n > 0 {
			t.Errorf("%s was killed: the Service did not answer %d times", p.name, n)
		}
		p.start()
		c.eventually(p.name+" is ready again", 3*time.Minute, p.ready)
	}
	for i, p := range ha.nodes {
		other := ha.nodes[1-i].name
		ha.reachServicesBy(1 - i)
		p.kill()
		c.eventually("the pods of "+p.name+" run on "+other, 3*time.Minute, func() bool {
			return c.try("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}") == "4" &&
				ha.placed(other) >= 4
		})
		ha.works(p.name + " was killed")
		ha.answers()
		p.start()
		c.eventually(p.name+" is ready again", 3*time.Minute, p.ready)
		c.kubectl("rollout", "restart", "deployment/web")
		c.kubectl("rollout", "status", "deployment/web", "--timeout=180s")
		c.eventually("pods run on "+p.name+" again", 3*time.Minute, func() bool { return ha.placed(p.name) > 0 })
	}
	ha.checkWrites()
}

// isolated reports whether the test is in process, mount and network namespaces of its own. If not,
// it runs the test again in such namespaces. When they end, the kernel removes all processes,
// mounts and networks in them.
func isolated(t *testing.T) bool {
	t.Helper()
	const variable = "KELSON_NODES_ISOLATED"
	if os.Getenv(variable) != "" {
		for _, args := range [][]string{
			{"mount", "--make-rslave", "/"}, {"mount", "--make-rshared", "/"}, {"mount", "-t", "proc", "proc", "/proc"},
			{"mkdir", "-p", "/run/netns"}, {"mount", "-t", "tmpfs", "tmpfs", "/run/netns"},
			{"ip", "link", "set", "lo", "up"},
		} {
			command(t, args...)
		}
		return true
	}
	self, err := os.Executable()
	require.NoError(t, err)
	// The first process is a shell, because it reaps orphans.
	cmd := exec.Command("/bin/bash", "-c", `"$@" & wait $!`, "bash", self, "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.timeout=30m")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	assert.NoErrorf(t, cmd.Run(), "in namespaces")
	return false
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// part is a process, or a machine, that can be killed and started again.
type part struct {
	*testing.T
	name  string
	args  []string
	log   string
	ready func() bool
	// ended reports whether a killed part has stopped completely; nil: it consists only of its
	// process.
	ended func() bool
	cmd   *exec.Cmd
}

func (p *part) start() {
	p.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p, err)
	defer log.Close() // the process has its own descriptor
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(p, p.cmd.Start())
}

// kill ends the part like a machine that loses power.
func (p *part) kill() {
	p.Helper()
	p.Logf("%s %s is killed", time.Now().Format(time.TimeOnly), p.name)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	for deadline := time.Now().Add(3 * time.Minute); p.ended != nil && !p.ended(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("%s still runs", p.name)
		}
	}
}

// haCluster has three servers, three members of etcd and two nodes.
type haCluster struct {
	*cluster
	dir, images             string
	node                    string // the program kelson-node
	members, servers, nodes []*part

	mu           sync.Mutex
	acknowledged []string
	unanswered   int
	service      string
}

func (m *haCluster) file(name string) string { return filepath.Join(m.dir, name) }

func newHACluster(t *testing.T, kelson, node, etcd string) *haCluster {
	t.Helper()
	m := &haCluster{node: node, images: writeImages(t)}
	dir, err := os.MkdirTemp("", "kelson-nodes-")
	require.NoError(t, err)
	m.dir = dir
	m.cluster = &cluster{T: t, kelson: kelson, kubeconfig: m.file("kubeconfig")}
	command(t, "ip", "link", "add", "lan", "type", "bridge")
	command(t, "ip", "link", "set", "lan", "up")
	for _, host := range []string{"1", "2", "3", "10"} {
		command(t, "ip", "address", "add", lan+host+"/24", "dev", "lan")
	}
	var members, clients []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("member-%d=http://127.0.0.1:%d", i, 12380+i))
		clients = append(clients, fmt.Sprintf("http://127.0.0.1:%d", 12390+i))
	}
	add := func(list *[]*part, name string, ready func() bool, args ...string) *part {
		p := &part{T: t, name: name, args: args, log: m.file(name + ".log"), ready: ready}
		*list = append(*list, p)
		return p
	}
	for i := range 3 {
		name, peer := "member-"+strconv.Itoa(i), strings.TrimPrefix(members[i], fmt.Sprintf("member-%d=", i))
		add(&m.members, name, func() bool { return strings.Contains(get(clients[i]+"/health", quick), `"true"`) },
			etcd, "--name", name, "--data-dir", m.file(name), "--listen-client-urls", clients[i],
			"--advertise-client-urls", clients[i],
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
			strings.Join(members, ","),
			"--initial-cluster-token", "kelson", "--logger", "zap", "--log-level", "error")
		name, address := "server-"+strconv.Itoa(i), lan+strconv.Itoa(i+1)
		add(&m.servers, name, func() bool {
			return m.try("--server=https://"+address+":6443", "get", "--raw", "/readyz") == "ok"
		},
			kelson, "serve", "--data-dir", m.file(name), "--kubeconfig", m.file(name+".kubeconfig"), "--etcd-servers",
			strings.Join(clients, ","),
			"--node=none", "--bind-address", address, "--advertise-address", address, "--secure-port=6443", "--tls-san",
			lan+"10",
			"--enable-bootstrap-token-auth", "--cluster-cidr=10.245.0.0/16", "--service-cluster-ip-range=10.97.0.0/16")
	}
	for i, name := range []string{"one", "two"} {
		p := add(&m.nodes, name, func() bool {
			return m.try("get", "node", name, "-o",
				`jsonpath={.status.conditions[?(@.type=="Ready")].status}`) == "True"
		})
		p.ended = func() bool {
			return exec.Command("flock", "-n", filepath.Join(m.file(name), "lock"), "true").Run() == nil
		}
		command(t, "ip", "netns", "add", name)
		command(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
		command(t, "ip", "link", "set", name, "master", "lan", "up")
		command(t, "ip", "-n", name, "address", "add", m.nodeAddress(i)+"/24", "dev", "eth0")
		command(t, "ip", "-n", name, "link", "set", "eth0", "up")
		command(t, "ip", "-n", name, "link", "set", "lo", "up")
		command(t, "ip", "-n", name, "route", "add", "default", "via", lan+"1")
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range slices.Concat(m.members, m.servers, m.nodes) {
				content, _ := os.ReadFile(p.log)
				t.Logf("end of the log of %s:\n%s", p.name, content[max(0, len(content)-4000):])
			}
		}
		for _, p := range slices.Concat(m.nodes, m.servers, m.members) {
			if p.cmd != nil {
				p.kill()
			}
			// Cgroups remain after the namespaces have ended.
			if slices.Contains(m.nodes, p) {
				_ = exec.Command("sh", "-c", "find /sys/fs/cgroup/*/kelson-"+p.name+
					" -depth -type d -exec rmdir {} +").Run()
			}
		}
		os.RemoveAll(dir)
	})
	return m
}

func (m *haCluster) nodeAddress(i int) string { return lan + strconv.Itoa(21+i) }

// startAll starts all servers, members and nodes, and creates a Deployment with pods on both nodes.
func (m *haCluster) startAll() {
	for _, p := range m.members {
		p.start()
	}
	for _, p := range m.members {
		m.eventually(p.name+" is ready", 3*time.Minute, p.ready)
	}
	keys := m.file("server-0/pki")
	for i, p := range m.servers {
		if i > 0 { // the servers share their keys
			command(m.T, "mkdir", m.file(p.name))
			command(m.T, "cp", "-r", keys, m.file(p.name+"/pki"))
		}
		p.start()
		if i == 0 {
			m.eventually("server-0 writes the kubeconfig", 3*time.Minute, func() bool {
				content, err := os.ReadFile(m.file("server-0.kubeconfig"))
				return err == nil && os.WriteFile(m.kubeconfig,
					[]byte(strings.ReplaceAll(string(content), lan+"1:6443", balancer)), 0o600) == nil
			})
		}
		m.eventually(p.name+" is ready", 3*time.Minute, p.ready)
	}
	balance(m.T, balancer, lan+"1:6443", lan+"2:6443", lan+"3:6443")
	// Each node chooses its server.
	line, err := exec.Command(m.kelson, "token", "create", "--kubeconfig", m.kubeconfig,
		"--server", "https://"+lan+"1:6443,https://"+lan+"2:6443,https://"+lan+"3:6443").Output()
	require.NoErrorf(m, err, "kelson token create")
	for i, p := range m.nodes {
		// A process namespace ends with its first process, so killing that simulates a power
		// failure. /run is empty after a start, as on a machine.
		p.args = append([]string{"nsenter", "--net=/run/netns/" + p.name, "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "/bin/bash", "-c", `
			mount --make-rslave / && mount --make-rshared / && mount -t proc proc /proc || exit
			for d in /run /var/lib/cni /var/lib/kubelet /var/log/containers; do
				mkdir -p $d; mount -t tmpfs -o mode=755 tmpfs $d && mount --make-shared $d || exit
			done
			"$@" & wait $!`, "bash", m.node}, strings.Fields(string(line))[1:]...)
		p.args = append(p.args, "--name="+p.name, "--node-ip="+m.nodeAddress(i), "--data-dir="+m.file(p.name),
			"--cni-config-dir="+m.file(p.name+"-cni"), "--images="+m.images)
		p.start()
	}
	for _, p := range m.nodes {
		m.eventually(p.name+" is ready", 3*time.Minute, p.ready)
	}
	out, err := m.run(webOfMany, "apply", "-f", "-")
	require.NoErrorf(m, err, "%s", out)
	m.kubectl("expose", "deployment", "web", "--port=80")
	m.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=180s")
	m.eventually("both nodes have pods", 3*time.Minute, func() bool {
		return m.placed("one") > 0 && m.placed("two") > 0
	})
	m.service = "http://" + m.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	m.reachServicesBy(0)
	m.answers()
}

// placed counts the ready pods of a node that are not terminating.
func (m *haCluster) placed(node string) int {
	list := m.try("get", "pods", "-l", "app=web", "--field-selector=spec.nodeName="+node,
		"-o", `jsonpath={range .items[*]}{.metadata.deletionTimestamp}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	return len(slices.DeleteFunc(strings.Fields(list), func(s string) bool { return s != "True" }))
}

// reachServicesBy routes this machine's packets to the addresses of Services through a node.
func (m *haCluster) reachServicesBy(i int) {
	m.Helper()
	command(m.T, "ip", "route", "replace", "10.97.0.0/16", "via", m.nodeAddress(i))
}

// answers waits until the Service answers ten times without a failure.
func (m *haCluster) answers() {
	m.Helper()
	good := 0
	m.eventually("the Service answers", 3*time.Minute, func() bool {
		if good++; !strings.Contains(get(m.service, quick), "served by web-") {
			good = 0
		}
		return good == 10
	})
}

// write creates ConfigMaps through the balancer, and reads a page of the Service, until the test
// ends.
func (m *haCluster) write() {
	cfg, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig)
	require.NoError(m, err)
	cfg.Timeout, cfg.QPS = 5*time.Second, -1
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(m, err)
	end := make(chan struct{})
	var both sync.WaitGroup
	m.Cleanup(func() { close(end); both.Wait() })
	repeat := func(every time.Duration, do func(n int)) {
		both.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				case <-time.After(every):
					do(n)
				}
			}
		})
	}
	repeat(50*time.Millisecond, func(n int) {
		name := fmt.Sprintf("write-%d", n)
		_, err := client.CoreV1().ConfigMaps("default").Create(context.Background(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			m.mu.Lock()
			m.acknowledged = append(m.acknowledged, name)
			m.mu.Unlock()
		}
	})
	repeat(100*time.Millisecond, func(int) {
		if page := get(m.service, 20*time.Second); !strings.Contains(page, "served by web-") {
			m.mu.Lock()
			m.unanswered++
			m.mu.Unlock()
		}
	})
}

func (m *haCluster) failures() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unanswered
}

func (m *haCluster) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.acknowledged)
}

// works waits until writes are acknowledged, and a new Deployment has pods: the controllers, the
// scheduler and a kubelet work.
func (m *haCluster) works(when string) {
	m.Helper()
	began, before := time.Now(), m.writes()
	m.eventually(when+": writes are acknowledged", 3*time.Minute, func() bool { return m.writes() >= before+20 })
	wrote := time.Since(began)
	m.eventually(when+": a Deployment is created", 3*time.Minute, func() bool {
		_, err := m.run("", "create", "deployment", "new", "--image=busybox:test", "--", "sh", "-c",
			"trap exit TERM; while true; do sleep 1; done")
		return err == nil
	})
	m.eventually(when+": its pod is ready", 3*time.Minute, func() bool {
		return m.try("get", "deployment", "new", "-o", "jsonpath={.status.readyReplicas}") == "1"
	})
	m.Logf("%s: 20 writes after %s, a new pod after %s", when, wrote.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	m.eventually(when+": the Deployment is deleted", 3*time.Minute, func() bool {
		_, err := m.run("", "delete", "deployment", "new", "--ignore-not-found", "--cascade=foreground",
			"--timeout=30s")
		return err == nil
	})
}

// checkWrites checks that the cluster has all acknowledged writes.
func (m *haCluster) checkWrites() {
	m.Helper()
	m.mu.Lock()
	acknowledged := slices.Clone(m.acknowledged)
	m.mu.Unlock()
	found := map[string]bool{}
	for name := range strings.FieldsSeq(m.kubectl("get", "configmaps", "-o", "jsonpath={.items[*].metadata.name}")) {
		found[name] = true
	}
	for _, name := range acknowledged {
		if !found[name] {
			m.Errorf("the acknowledged write %s is lost", name)
		}
	}
	m.Logf("%d acknowledged writes", len(acknowledged))
}

// balance forwards connections to the servers in turn, and skips servers that refuse connections.
func balance(t *testing.T, at string, servers ...string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for first := 0; ; first++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				for i := range servers {
					server, err := net.DialTimeout("tcp", servers[(first+i)%len(servers)], time.Second)
					if err != nil {
						continue
					}
					defer server.Close()
					go func() { _, _ = io.Copy(server, client); server.Close() }()
					_, _ = io.Copy(client, server)
					return
				}
			}()
		}
	}()
}

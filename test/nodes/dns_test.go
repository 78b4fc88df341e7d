package nodes_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Pods find Services by their names.
func TestDNS(t *testing.T) {
	c := start(t)
	if _, err := exec.LookPath(filepath.Join(filepath.Dir(c.kelson), "kelson-dns")); err != nil {
		t.Skipf("run make kelson-dns: %v", err)
	}
	c.kubectl("create", "deployment", "web", "--image=busybox:test", "--", "sh", "-c",
		"echo found by its name > /tmp/index.html; exec httpd -f -p 8080 -h /tmp")
	c.kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080")
	c.kubectl("run", "client", "--image=busybox:test", "--restart=Never", "--", "sleep", "3600")
	c.kubectl("wait", "-n", "kube-system", "deployment/coredns", "--for=condition=Available", "--timeout=180s")
	c.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=180s")
	c.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=180s")
	in := func(command string) string { return c.try("exec", "client", "--", "sh", "-c", command+" 2>&1") }
	c.wants("resolv.conf", in("cat /etc/resolv.conf"), "nameserver 10.97.0.10\n",
		"search default.svc.cluster.local svc.cluster.local cluster.local")
	c.eventually("the API server's name is resolved", 3*time.Minute, func() bool {
		return strings.Contains(in("nslookup kubernetes.default.svc.cluster.local"), "Address: 10.97.0.1\n")
	})
	address := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	c.eventually("the address of the Service is served", 3*time.Minute, func() bool {
		return strings.Contains(in("nslookup web.default.svc.cluster.local"), "Address: "+address+"\n")
	})
	for _, name := range []string{"web", "web.default", "web.default.svc.cluster.local"} {
		c.eventually("a pod connects to "+name, 3*time.Minute, func() bool {
			return strings.Contains(in("wget -qO- http://"+name), "found by its name")
		})
	}
	c.wants("a name that does not exist", in("nslookup missing.default.svc.cluster.local"), "NXDOMAIN")
	c.wants("a port by its name", in("nslookup -type=srv _dns._udp.kube-dns.kube-system.svc.cluster.local"),
		"kube-dns.kube-system.svc.cluster.local")
	backwards := strings.Split(address, ".")
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	c.wants("the name of an address", in("nslookup -type=ptr "+strings.Join(backwards, ".")+".in-addr.arpa"),
		"web.default.svc.cluster.local")

	// A Service that changes is found at its new address.
	c.kubectl("delete", "service", "web")
	c.kubectl("create", "service", "clusterip", "web", "--clusterip=10.97.0.77", "--tcp=80:8080")
	c.eventually("the new address is served", 3*time.Minute, func() bool {
		return strings.Contains(in("nslookup web.default.svc.cluster.local"), "Address: 10.97.0.77\n")
	})
	c.kubectl("delete", "pod,deployment", "--all", "--grace-period=1", "--timeout=180s")
}

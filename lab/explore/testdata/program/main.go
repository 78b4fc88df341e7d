// Command program is an operator without dependencies. It creates two Secrets for each ConfigMap,
// and looks only for the first. With the variable CORRECT, it looks for the second, too. With
// LEASE, it leads by a Lease, and with RANDOM, its pauses depend on random numbers. With DATE, the
// Secrets have the date in a time zone: in that of the process, or in UTC. VARIABLES has the values
// that other variables must have, and ARGUMENTS the arguments. SERVICE is an address that the
// program must reach. The names of the Secrets contain SUFFIX. ZONES is the address of a service
// that creates zones; with LATE, the program creates a zone after the first Secret. CA is the file
// of the only authority of services that the program trusts.
//
// With NAMES, there is one Secret for each ConfigMap, with a random part or the time in its name.
// LOCK is held, own or other: the program holds a lock while it sends requests and sleeps, locks a
// lock twice, or does so with one that the agent does not replace; then it writes the file WAITS.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

type object struct {
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Metadata   metadata `json:"metadata"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Owners          []owner           `json:"ownerReferences,omitempty"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

var server string

func main() {
	kubeconfig, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	server = regexp.MustCompile(`server: "?([^"}\s]+)`).FindStringSubmatch(string(kubeconfig))[1]
	for _, variable := range strings.Split(os.Getenv("VARIABLES"), ",") {
		if name, value, _ := strings.Cut(variable, "="); os.Getenv(name) != value {
			log.Fatalf("%s is %q, want %q", name, os.Getenv(name), value)
		}
	}
	if want := os.Getenv("ARGUMENTS"); want != "" && want != strings.Join(os.Args[1:], " ") {
		log.Fatalf("the arguments are %q, want %s", os.Args[1:], want)
	}
	if file := os.Getenv("CA"); file != "" {
		authorities := x509.NewCertPool()
		if data, err := os.ReadFile(file); err != nil || !authorities.AppendCertsFromPEM(data) {
			log.Fatal("no authority of services: ", err)
		}
		services.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: authorities}
	}
	if os.Getenv("EXIT") != "" {
		os.Exit(3)
	}
	go func() { log.Fatal(http.ListenAndServe(":8080", http.NotFoundHandler())) }()
	for {
		resp, err := http.Get("http://localhost:8080/")
		if err == nil && resp.StatusCode == http.StatusNotFound {
			break
		}
		log.Print("the operator does not reach its own port: ", err)
		time.Sleep(time.Second)
	}
	isolated()
	hold()
	if os.Getenv("LEASE") != "" {
		lead()
	}
	began := time.Now()
	for {
		if err := follow(); err != nil {
			log.Print(time.Since(began), err)
		}
		time.Sleep(time.Second)
	}
}

var (
	state sync.Mutex
	once  sync.Once
)

// hold waits for locks, see LOCK.
func hold() {
	switch os.Getenv("LOCK") {
	case "held":
		for i := 0; i < 2; i++ {
			go func() {
				for ; ; time.Sleep(time.Minute) {
					state.Lock()
					time.Sleep(10 * time.Second)
					if err := call("GET", "/api/v1/configmaps", nil, nil); err != nil {
						log.Print(err)
					}
					state.Unlock()
				}
			}()
		}
	case "own":
		state.Lock()
		go func() { state.Lock() }()
	case "other":
		if file := os.Getenv("WAITS"); file != "" {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				log.Fatal(err)
			}
		}
		once.Do(func() { once.Do(func() {}) })
	}
}

// isolated tests that the program reaches no other system, and starts no other program. A socket to
// which nothing is sent does not stop the time.
func isolated() {
	if _, err := http.Get("http://telemetry.example.com/"); err == nil {
		log.Fatal("the operator reaches another system")
	}
	// 192.0.2.1 is an address for documentation.
	if _, err := net.Dial("tcp", "192.0.2.1:443"); !errors.Is(err, syscall.EHOSTUNREACH) {
		log.Fatal("the operator reaches another system: ", err)
	}
	if service := os.Getenv("SERVICE"); service != "" {
		conn, err := net.Dial("tcp", service)
		if err != nil {
			log.Fatal("the operator does not reach a system that is allowed: ", err)
		}
		conn.Close()
	}
	if err := exec.Command("true").Run(); err == nil {
		log.Fatal("the operator starts another program")
	}
	socket, err := net.ListenPacket("udp", ":3030")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _, err := socket.ReadFrom(make([]byte, 1))
		log.Fatal("a packet arrives: ", err)
	}()
}

// pause sleeps for a random time if there is the variable RANDOM.
func pause() {
	if os.Getenv("RANDOM") != "" {
		time.Sleep(time.Duration(rand.Intn(1000)) * time.Millisecond)
	}
}

type lease struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   metadata  `json:"metadata"`
	Spec       leaseSpec `json:"spec"`
}

type leaseSpec struct {
	Holder   string `json:"holderIdentity,omitempty"`
	Duration int    `json:"leaseDurationSeconds,omitempty"`
	Renewed  string `json:"renewTime,omitempty"`
}

// lead waits until the program holds its Lease, and then renews it.
func lead() {
	const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	me := fmt.Sprint("program-", rand.Int())
	held := lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: metadata{Name: "program"}}
	renew := func(method, path string) error {
		held.Spec = leaseSpec{Holder: me, Duration: 15, Renewed: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}
		return call(method, path, &held, &held)
	}
	for last := ""; ; time.Sleep(15 * time.Second) {
		held.Metadata = metadata{Name: "program"}
		if err := renew("POST", path); err == nil {
			break
		} else if err != errConflict {
			log.Fatal(err)
		}
		if err := call("GET", path+"/program", nil, &held); err != nil {
			log.Fatal(err)
		}
		if expired := last == held.Spec.Renewed; expired && renew("PUT", path+"/program") == nil {
			break
		}
		last = held.Spec.Renewed
	}
	go func() {
		for {
			time.Sleep(2 * time.Second)
			if err := renew("PUT", path+"/program"); err != nil {
				log.Fatal("the Lease is lost: ", err)
			}
		}
	}()
}

// follow lists and watches ConfigMaps.
func follow() error {
	var list struct {
		Metadata metadata `json:"metadata"`
		Items    []object `json:"items"`
	}
	if err := call("GET", "/api/v1/configmaps", nil, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := reconcile(&list.Items[i]); err != nil {
			return err
		}
	}
	resp, err := http.Get(server + "/api/v1/configmaps?watch=true&timeoutSeconds=300&resourceVersion=" + list.Metadata.ResourceVersion)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var event struct {
			Type   string
			Object object
		}
		if err := json.Unmarshal(line, &event); err != nil || event.Type == "ERROR" {
			return fmt.Errorf("%s: %v", line, err)
		}
		if event.Type != "DELETED" {
			if err := reconcile(&event.Object); err != nil {
				return err
			}
		}
	}
}

func reconcile(web *object) error {
	if web.Metadata.Labels["web"] == "" {
		return nil
	}
	if kind := os.Getenv("NAMES"); kind != "" {
		return named(web, kind)
	}
	last := "-key"
	if os.Getenv("CORRECT") != "" && os.Getenv("LATE") == "" {
		last = "-cert"
	}
	path, name := "/api/v1/namespaces/"+web.Metadata.Namespace+"/secrets", web.Metadata.Name+os.Getenv("SUFFIX")
	if err := call("GET", path+"/"+name+last, nil, nil); err != errNotFound {
		return err
	}
	for _, suffix := range []string{"-key", "-cert"} {
		if (suffix == "-cert") == (os.Getenv("LATE") != "") {
			if os.Getenv("ZONES") != "" {
				if err := createZone(web.Metadata.Name); err != nil {
					return err
				}
			}
		}
		pause()
		log.Print("create the Secret ", suffix)
		secret := object{APIVersion: "v1", Kind: "Secret", Metadata: metadata{Name: name + suffix,
			Owners: []owner{{"v1", "ConfigMap", web.Metadata.Name, web.Metadata.UID}}}}
		switch os.Getenv("DATE") {
		case "local":
			secret.Metadata.Labels = map[string]string{"date": time.Now().Format("2006-01-02")}
		case "UTC":
			secret.Metadata.Labels = map[string]string{"date": time.Now().UTC().Format("2006-01-02")}
		}
		if err := call("POST", path, secret, nil); err != nil && err != errConflict {
			return err
		}
	}
	return nil
}

// named creates a Secret for a ConfigMap that has none.
func named(web *object, kind string) error {
	path := "/api/v1/namespaces/" + web.Metadata.Namespace + "/secrets"
	var list struct {
		Items []object `json:"items"`
	}
	if err := call("GET", path, nil, &list); err != nil {
		return err
	}
	for _, secret := range list.Items {
		if len(secret.Metadata.Owners) > 0 && secret.Metadata.Owners[0].UID == web.Metadata.UID {
			return nil
		}
	}
	part := ""
	switch kind {
	case "random":
		for i := 0; i < 5; i++ {
			part += string("bcdfghjklmnpqrstvwxz2456789"[rand.Intn(27)])
		}
	case "unix":
		part = fmt.Sprint(time.Now().Unix())
	case "date":
		part = time.Now().Format("20060102-150405")
	}
	return call("POST", path, object{APIVersion: "v1", Kind: "Secret", Metadata: metadata{
		Name:   web.Metadata.Name + "-" + part,
		Owners: []owner{{"v1", "ConfigMap", web.Metadata.Name, web.Metadata.UID}}}}, nil)
}

// services is a client with a transport of its own.
var services = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConns: 1}}

// createZone creates a zone by the service at the address in the variable ZONES. With CAREFUL, it
// looks for the zone first.
var createZone = func(name string) error {
	address := os.Getenv("ZONES")
	if os.Getenv("CAREFUL") != "" {
		resp, err := services.Get(address + "/zones/" + name)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		} else if resp.StatusCode != http.StatusNotFound {
			return fmt.Errorf("look for the zone: %s", resp.Status)
		}
	}
	resp, err := services.Post(address+"/zones", "application/json", strings.NewReader(`{"name": "`+name+`"}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("create the zone: %s", resp.Status)
	}
	return nil
}

var errNotFound, errConflict = fmt.Errorf("not found"), fmt.Errorf("conflict")

func call(method, path string, body, into interface{}) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, server+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return errNotFound
	case resp.StatusCode == http.StatusConflict:
		return errConflict
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s", method, path, answer)
	case into != nil:
		return json.Unmarshal(answer, into)
	}
	return nil
}

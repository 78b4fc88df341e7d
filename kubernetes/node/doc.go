// Package node runs pods: its agent replaces the kubelet. Package
// kelson.dev/kubernetes/scheduler binds pods to nodes.
//
// # Model
//
//	      follows its pods       runs
//	Pod ──────────────────▶ Agent ───▶ Runtime
//	 ▲                        │          simulated: containers are timers
//	 └── status, deletion ────┘          process: containers are processes of this machine
//
// An [Agent] is a client of the API: it needs only the address of the API server and credentials,
// and uses any transport.
//
// Like a kubelet, an [Agent] registers its Node, renews the node's lease, and runs each pod that is
// bound to it. A pure state machine (lifecycle.go) decides what to do next, from the pod, the state
// of its containers and the time. One worker per pod carries it out. A [Runtime] has everything
// that an agent needs to run containers, and is small enough for an implementation over the
// Container Runtime Interface.
//
// The agent implements these parts of a pod's spec: containers, init containers and sidecars in
// order, restart policies with back-off, activeDeadlineSeconds, terminationGracePeriodSeconds,
// environment variables with all kinds of references, and readiness gates. Ephemeral containers
// start when they are added. If the runtime executes commands ([Info].Executes), the agent also
// runs probes and lifecycle hooks, passes the addresses of Services, and keeps the pod's volumes up
// to date; otherwise containers are ready when they run.
//
// The agent also serves the part of a kubelet's HTTP API that the API server calls
// ([Agent.ServeHTTP]): exec, attach, port-forward and logs. Exec and attach work for containers
// that implement [Executor] and [Attacher], and port-forward for sandboxes that implement [Dialer].
//
// # Concurrency
//
// Run blocks until its context ends, and leaves no goroutine behind. All waiting uses package time,
// so everything works in a testing/synctest bubble.
//
// # Use
//
//	agent, err := node.NewAgent(node.AgentConfig{Config: restConfig, Name: "node-1", Runtime: simulated.New(simulated.Config{})})
//	go agent.Run(ctx)
//	log, err := agent.Logs(ctx, pod, &corev1.PodLogOptions{Follow: true})
package node

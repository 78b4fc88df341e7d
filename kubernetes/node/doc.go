// Package node has the two that make pods run: a scheduler that binds them to nodes, and the agent of a node that runs them.
//
// # Model
//
//	            bind                   runs
//	Scheduler ───────▶ Pod ◀──────── Agent ───────▶ Runtime
//	   follows pods      ▲   follows its pods         simulated: containers are timers
//	   and nodes         └── status, deletion         process: containers are processes of this machine
//
// Both are operators: they know the API server only by its address and credentials, over any transport.
//
// An [Agent] is to the server what a kubelet is: it registers its Node, renews the node's lease, and takes each pod that is bound to
// it through its life. What to do next is decided by a pure machine (machine.go) from the pod, what is known of its containers
// and the time; one worker per pod does it. A [Runtime] is all that an agent needs to run containers, and small enough for
// one that speaks the Container Runtime Interface.
//
// What of a pod's spec has effect: containers, init containers and sidecars in order, restart policies with back-off,
// activeDeadlineSeconds, terminationGracePeriodSeconds, environment with all its references, readiness gates. Containers are ready
// when they run: probes and lifecycle hooks have no effect. Ephemeral containers are started when they are added.
//
// For the API server the agent is a kubelet's HTTP API, too ([Agent.ServeHTTP]): commands in containers, attachments, ports and logs, as far as
// the runtime's containers are [Executor] and [Attacher], and its sandboxes [Dialer].
//
// A [Scheduler] looks at readiness and unschedulable, taints, node selector and required node affinity, host ports and
// requests, and takes the least loaded node that is left. It has no preemption and no spreading.
//
// # Concurrency
//
// Run blocks until its context ends and then leaves no goroutine. Time is that of package time only, so that everything
// here runs in a testing/synctest bubble.
//
// # Use
//
//	scheduler, err := node.NewScheduler(node.SchedulerConfig{Config: restConfig})
//	agent, err := node.NewAgent(node.AgentConfig{Config: restConfig, Name: "node-1", Runtime: simulated.New(simulated.Config{})})
//	go scheduler.Run(ctx)
//	go agent.Run(ctx)
//	log, err := agent.Logs(ctx, pod, &corev1.PodLogOptions{Follow: true})
package node

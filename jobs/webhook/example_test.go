package webhook_test

import (
	"fmt"
	"time"

	"weir/jobs/webhook"
)

// The vector of the documentation: with the same secret, id, timestamp and body a receiver must come to the same
// signature, byte for byte.
func ExampleSign() {
	key, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}

	signature, err := webhook.Sign([]webhook.Key{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	fmt.Println(signature, err)
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= <nil>
}

// What a person sees who saves a URL of an inside network.
func ExampleGuard_CheckURL() {
	var guard webhook.Guard
	_, err := guard.CheckURL("https://10.0.0.24:8079/hook")
	fmt.Println(err)

	guard.Allow, _ = webhook.ParseNetworks("10.0.0.0/8")
	u, err := guard.CheckURL(" HTTP://10.0.0.24:8079/Hook ")
	fmt.Println(u, err)
	// Output:
	// 10.0.0.24 is not a public address (private); to allow it, list its network in WEIR_ALLOW_NETWORKS
	// http://10.0.0.24:8079/Hook <nil>
}

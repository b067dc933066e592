package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// seen collects what a consumer got, from any of its goroutines.
type seen struct {
	lock     sync.Mutex
	messages []*primitive.MessageExt
}

func (s *seen) add(messages ...*primitive.MessageExt) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.messages = append(s.messages, messages...)
}

func (s *seen) bodies() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var bodies []string
	for _, message := range s.messages {
		bodies = append(bodies, string(message.Body))
	}
	return bodies
}

func (s *seen) has(body string) bool {
	for _, one := range s.bodies() {
		if one == body {
			return true
		}
	}
	return false
}

func (s *seen) consume(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	s.add(messages...)
	return consumer.ConsumeSuccess, nil
}

type consume func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func (h *harness) consumer(group, topic, tags string, f consume, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	options = append([]consumer.Option{
		consumer.WithGroupName(group),
		consumer.WithInstance(fmt.Sprintf("%s-%d", group, time.Now().UnixNano())),
		consumer.WithNameServer([]string{h.namesrv}),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, f); err != nil {
		return nil, err
	}
	return made, made.Start()
}

func send(p rocketmq.Producer, topic, tag string, bodies ...string) error {
	for _, body := range bodies {
		if _, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)).WithTag(tag)); err != nil {
			return err
		}
	}
	return nil
}

func numbers(from, to int) []string {
	var made []string
	for i := from; i < to; i++ {
		made = append(made, strconv.Itoa(i))
	}
	return made
}

// once checks that the bodies are the numbers from..to, each exactly once.
func once(bodies []string, from, to int) error {
	counts := map[string]int{}
	for _, body := range bodies {
		counts[body]++
	}
	for _, wanted := range numbers(from, to) {
		if counts[wanted] != 1 {
			return fmt.Errorf("message %s came %d times", wanted, counts[wanted])
		}
	}
	if len(bodies) != to-from {
		return fmt.Errorf("%d messages, expected %d", len(bodies), to-from)
	}
	return nil
}

// held counts the topic's queues that a consumer reports to operators; the report has an internal type.
func held(c rocketmq.PushConsumer, topic string) (count int) {
	info := reflect.ValueOf(c).MethodByName("GetConsumerRunningInfo").Call([]reflect.Value{reflect.ValueOf(false)})
	for _, queue := range info[0].Elem().FieldByName("MQTable").MapKeys() {
		if queue.Interface().(primitive.MessageQueue).Topic == topic {
			count++
		}
	}
	return count
}

// awaitShares waits until each consumer holds count queues of the topic, and still after a while.
func awaitShares(topic string, count int, consumers ...rocketmq.PushConsumer) error {
	inARow := 0
	return await(fmt.Sprintf("shares of %d queues", count), func() bool {
		inARow++
		for _, c := range consumers {
			if held(c, topic) != count {
				inARow = 0
			}
		}
		return inARow >= stablePolls
	})
}

func clustering(h *harness, topic string) (string, error) {
	var a, b seen
	first, err := h.consumer(topic, topic, "*", a.consume)
	if err != nil {
		return "", err
	}
	defer first.Shutdown()
	// Its first rebalance must be over: a lone member that still takes queues looks like one that shares them.
	if err := awaitShares(topic, 4, first); err != nil {
		return "", err
	}
	second, err := h.consumer(topic, topic, "*", b.consume)
	if err != nil {
		return "", err
	}
	defer second.Shutdown()
	if err := awaitShares(topic, 2, first, second); err != nil {
		return "", err
	}
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	if err := send(p, topic, "T", numbers(0, 80)...); err != nil {
		return "", err
	}
	if err := await("80 messages", func() bool { return len(a.bodies())+len(b.bodies()) >= 80 }); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%d and %d", len(a.bodies()), len(b.bodies()))
	if len(a.bodies()) == 0 || len(b.bodies()) == 0 {
		return "", fmt.Errorf("shares %s", detail)
	}
	return detail, once(append(a.bodies(), b.bodies()...), 0, 80)
}

func broadcasting(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	if err := send(p, topic, "T", numbers(0, 20)...); err != nil {
		return "", err
	}
	var all [2]seen
	for i := range all {
		c, err := h.consumer(topic, topic, "*", all[i].consume, consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return "", err
		}
		defer c.Shutdown()
	}
	for i := range all {
		one := &all[i]
		if err := await("20 messages at each", func() bool { return len(one.bodies()) >= 20 }); err != nil {
			return "", err
		}
		if err := once(one.bodies(), 0, 20); err != nil {
			return "", err
		}
	}
	return "20 and 20", nil
}

func orderly(h *harness, topic string) (string, error) {
	p, err := h.producer(topic, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	for i := 0; i < 40; i++ {
		message := primitive.NewMessage(topic, []byte(strconv.Itoa(i))).WithShardingKey(fmt.Sprintf("key%d", i%4))
		if _, err := p.SendSync(context.Background(), message); err != nil {
			return "", err
		}
	}
	var got seen
	c, err := h.consumer(topic, topic, "*", got.consume, consumer.WithConsumerOrder(true))
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	if err := await("40 messages", func() bool { return len(got.bodies()) >= 40 }); err != nil {
		return "", err
	}
	last := map[string]int{}
	got.lock.Lock()
	defer got.lock.Unlock()
	for _, message := range got.messages {
		number, _ := strconv.Atoi(string(message.Body))
		key := message.GetShardingKey()
		if before, known := last[key]; known && number != before+4 {
			return "", fmt.Errorf("%d came after %d", number, before)
		}
		last[key] = number
	}
	return "40 in order", nil
}

func tagFilter(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	for i, body := range numbers(0, 30) {
		if err := send(p, topic, "Tag"+string("ABC"[i%3]), body); err != nil {
			return "", err
		}
	}
	var got seen
	c, err := h.consumer(topic, topic, "TagA || TagB", got.consume)
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	if err := await("20 messages", func() bool { return len(got.bodies()) >= 20 }); err != nil {
		return "", err
	}
	if err := send(p, topic, "TagC", "other"); err != nil {
		return "", err
	}
	if err := send(p, topic, "TagB", "last"); err != nil {
		return "", err
	}
	if err := await("the last match", func() bool { return got.has("last") }); err != nil {
		return "", err
	}
	if got.has("other") || len(got.bodies()) != 21 {
		return "", fmt.Errorf("got %v", got.bodies())
	}
	return "21 of 32", nil
}

func offsetsSurvive(h *harness, topic string) (string, error) {
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	for _, part := range [][2]int{{0, 20}, {20, 30}} {
		if err := send(p, topic, "T", numbers(part[0], part[1])...); err != nil {
			return "", err
		}
		var got seen
		c, err := h.consumer(topic, topic, "*", got.consume)
		if err != nil {
			return "", err
		}
		// A handler's result is counted after its return: a shutdown before that commits too little.
		counted := func() bool {
			left, known := c.GetOffsetDiffMap()[topic]
			return known && left == 0 && len(got.bodies()) >= part[1]-part[0]
		}
		if err := await("its messages", counted); err != nil {
			return "", err
		}
		if err := c.Shutdown(); err != nil {
			return "", err
		}
		if err := once(got.bodies(), part[0], part[1]); err != nil {
			return "", err
		}
	}
	return "20 then 10", nil
}

func retry(h *harness, topic string) (string, error) {
	var got seen
	c, err := h.consumer(topic, topic, "*", func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got.add(messages...)
		if messages[0].ReconsumeTimes < 1 {
			if state, known := primitive.GetConcurrentlyCtx(ctx); known {
				state.DelayLevelWhenNextConsume = 1
			}
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	if err := send(p, topic, "TagR", "again"); err != nil {
		return "", err
	}
	if err := await("the second delivery", func() bool { return len(got.bodies()) >= 2 }); err != nil {
		return "", err
	}
	got.lock.Lock()
	defer got.lock.Unlock()
	second := got.messages[1]
	if second.ReconsumeTimes != 1 || string(second.Body) != "again" || second.Topic != topic {
		return "", fmt.Errorf("second delivery %v", second)
	}
	return "reconsumeTimes 1", nil
}

func delayLevel(h *harness, topic string) (string, error) {
	var got seen
	c, err := h.consumer(topic, topic, "*", got.consume)
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	message := primitive.NewMessage(topic, []byte("later")).WithDelayTimeLevel(1)
	if _, err := p.SendSync(context.Background(), message); err != nil {
		return "", err
	}
	if err := await("the delayed message", func() bool { return got.has("later") }); err != nil {
		return "", err
	}
	got.lock.Lock()
	defer got.lock.Unlock()
	waited := got.messages[0].StoreTimestamp - got.messages[0].BornTimestamp
	if waited < 900 {
		return "", fmt.Errorf("a level 1 message came after %d ms", waited)
	}
	return "delivered", nil
}

func pullFrom(h *harness, topic string) (string, error) {
	p, err := h.producer(topic, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	queues, err := h.queues(topic)
	if err != nil {
		return "", err
	}
	for i := 0; i < 5; i++ {
		message := primitive.NewMessage(topic, []byte(strconv.Itoa(i)))
		message.Queue = queues[1]
		if _, err := p.SendSync(context.Background(), message); err != nil {
			return "", err
		}
	}
	puller, err := rocketmq.NewPullConsumer(
		consumer.WithGroupName(topic), consumer.WithNameServer([]string{h.namesrv}), consumer.WithInstance(topic+"-pull"))
	if err != nil {
		return "", err
	}
	if err := puller.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return "", err
	}
	if err := puller.Start(); err != nil {
		return "", err
	}
	defer puller.Shutdown()
	result, err := puller.PullFrom(context.Background(), queues[1], 2, 2)
	if err != nil {
		return "", err
	}
	if result.Status != primitive.PullFound || len(result.GetMessageExts()) != 2 || result.NextBeginOffset != 4 ||
		result.MinOffset != 0 || result.MaxOffset != 5 || string(result.GetMessageExts()[0].Body) != "2" {
		return "", fmt.Errorf("pulled %v", result)
	}
	beyond, err := puller.PullFrom(context.Background(), queues[1], 99, 2)
	if err != nil {
		return "", err
	}
	if beyond.Status != primitive.PullOffsetIllegal || beyond.NextBeginOffset != 5 {
		return "", fmt.Errorf("beyond the end: %v", beyond)
	}
	return "found and refused", nil
}

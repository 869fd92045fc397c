interface WSInitMessage {
  type: 'init';
  data: {
    sessions: Session[];
  };
}

interface WSEventMessage {
  type: 'event';
  data: AgentEvent;
}

interface WSSessionCreatedMessage {
  type: 'session:created';
  data: Session;
}

interface WSSessionUpdatedMessage {
  type: 'session:updated';
  data: Session;
}

interface WSSessionDeletedMessage {
  type: 'session:deleted';
  data: Session;
}

interface WSSessionStatusMessage {
  type: 'session:status';
  data: Session;
}

interface WSHistoryMessage {
  type: 'history';
  data: AgentEvent[];
}

interface WSPongMessage {
  type: 'pong';
}

interface WSPingMessage {
  type: 'ping';
}

interface WSGetHistoryMessage {
  type: 'get_history';
  data?: {
    limit?: number;
    sessionId?: string;
  };
}

interface WSSubscribeMessage {
  type: 'subscribe';
  data?: {
    sessions?: string[];
    eventTypes?: EventType[];
  };
}

type SessionStatus = 'idle' | 'working' | 'waiting' | 'offline';
type SessionType = 'internal' | 'external';
type AgentType = 'claude' | 'codex' | string;

interface Session {
  id: string;
  name: string;
  type: SessionType;
  agent: AgentType;
  status: SessionStatus;
  cwd: string;
  createdAt: number;
  lastActivity: number;
  tmuxSession?: string;
  agentSessionId?: string;
  currentTool?: string;
}

type EventType =
  | 'pre_tool_use'
  | 'post_tool_use'
  | 'stop'
  | 'subagent_stop'
  | 'session_start'
  | 'session_end'
  | 'user_prompt_submit'
  | 'notification';

interface BaseEvent {
  id: string;
  timestamp: number;
  type: EventType;
  sessionId: string;
  agentSessionId?: string;
  agent: AgentType;
  cwd: string;
}

interface PreToolUseEvent extends BaseEvent {
  type: 'pre_tool_use';
  tool: string;
  toolInput: Record<string, unknown>;
  toolUseId: string;
  assistantText?: string;
}

interface PostToolUseEvent extends BaseEvent {
  type: 'post_tool_use';
  tool: string;
  toolInput: Record<string, unknown>;
  toolResponse: Record<string, unknown>;
  toolUseId: string;
  success: boolean;
  duration?: number;
}

interface StopEvent extends BaseEvent {
  type: 'stop';
  stopHookActive: boolean;
  response?: string;
}

interface SubagentStopEvent extends BaseEvent {
  type: 'subagent_stop';
  status?: string;
}

interface SessionStartEvent extends BaseEvent {
  type: 'session_start';
  source: string;
}

interface SessionEndEvent extends BaseEvent {
  type: 'session_end';
  reason?: string;
}

interface UserPromptSubmitEvent extends BaseEvent {
  type: 'user_prompt_submit';
  prompt?: string;
}

interface NotificationEvent extends BaseEvent {
  type: 'notification';
  message?: string;
  level?: string;
}

type AgentEvent =
  | PreToolUseEvent
  | PostToolUseEvent
  | StopEvent
  | SubagentStopEvent
  | SessionStartEvent
  | SessionEndEvent
  | UserPromptSubmitEvent
  | NotificationEvent;
